// The label `code`.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/base/status.h"

namespace lockstep::metrics {

// The codes there are; the first is OK.
inline constexpr size_t kCodes = 17;

inline size_t IndexOf(StatusCode code) {
  const auto index = static_cast<size_t>(code);
  return index < kCodes ? index : static_cast<size_t>(StatusCode::kUnknown);
}
// "INVALID_ARGUMENT", as in docs/errors.md.
inline std::string NameOf(size_t index) {
  return absl::StatusCodeToString(static_cast<StatusCode>(index));
}

}  // namespace lockstep::metrics
