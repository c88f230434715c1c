// A fragment in a file: text in MLIR, or bytecode.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "runtime/fragment/fragment.h"

namespace lockstep::cli {

// Messages call it by the file's name. The errors of reading a file, and those of
// fragment::Fragment::Mlir() with the path.
StatusOr<fragment::Fragment> ReadFragmentFile(const std::string& path);

}  // namespace lockstep::cli
