// What `lockstep doctor` says of fragments: whether this host compiles them, and where it keeps
// what is compiled. A cluster starts without, so nothing here is more than doubtful.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "tools/cli/doctor_checks.h"

namespace lockstep::cli {

// `program`: the worker's setting `compiler`; empty: wherever it is found. `allowed`: the
// controller's setting `fragments`. `blas`: whether there is one for products of matrices.
Finding CheckFragmentCompiler(const std::string& program, const std::string& allowed,
                              const Status& blas);

// `path`: the worker's setting `fragment_cache`; empty: what `lockstep up` takes then.
Finding CheckFragmentCache(std::string path);

}  // namespace lockstep::cli
