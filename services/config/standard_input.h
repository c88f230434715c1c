// A configuration that comes by standard input instead of in a file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace lockstep::config {

// What stands for a file's path, and what messages call it.
inline constexpr std::string_view kStandardInput = "-";
inline constexpr std::string_view kStandardInputName = "standard input";

// What `fd` has up to its end, or to a line "...", by which YAML ends a document: more may follow,
// or the input stay open, and whoever sends it need not close it. Waits for it.
// kInvalidArgument: more than `max_bytes`.
StatusOr<std::string> ReadDocument(int fd, size_t max_bytes);

}  // namespace lockstep::config
