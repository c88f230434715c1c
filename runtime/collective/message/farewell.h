// What a rank says when it leaves, as it crosses a network.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace lockstep::collective::message {

// Of its text.
inline constexpr size_t kFarewellBytes = 1016;

inline Status ReadFarewell(uint64_t code, std::string_view text) {
  const auto known = static_cast<uint64_t>(StatusCode::kUnauthenticated);
  return Status(code <= known ? static_cast<StatusCode>(code) : StatusCode::kUnknown,
                std::string(text.substr(0, kFarewellBytes)));
}

}  // namespace lockstep::collective::message
