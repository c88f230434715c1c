// The text forms of durations ("500ms"), sizes ("8MiB") and whole numbers.
//
// Every parser takes the whole text, without blanks, and gives kInvalidArgument with the forms that
// are allowed. What a formatter prints, the parser reads back as the same value.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace lockstep::config {

// A whole number and one of us, ms, s, min, h.
StatusOr<std::chrono::microseconds> ParseDuration(std::string_view text);
// In the largest unit that divides it: "90s", "2min".
std::string FormatDuration(std::chrono::microseconds value);

// A whole number and one of B, KiB, MiB, GiB, TiB.
StatusOr<uint64_t> ParseSize(std::string_view text);
std::string FormatSize(uint64_t bytes);

// Decimal digits, with a minus sign for negative numbers.
StatusOr<int64_t> ParseInteger(std::string_view text);

}  // namespace lockstep::config
