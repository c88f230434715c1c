// The text forms of durations ("500ms"), sizes ("8MiB") and whole numbers.
//
// Every parser takes the whole text, without blanks, and gives kInvalidArgument with the forms that
// are allowed. What an Exact...() prints, the parser reads back as the same value; what a
// Rounded...() prints is for people.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace lockstep {

// A whole number and one of us, ms, s, min, h.
StatusOr<std::chrono::microseconds> ParseDuration(std::string_view text);
// In the largest unit that divides it: "90s", "2min".
std::string ExactDuration(std::chrono::microseconds value);
// "350 ms", "2.4 s", "3 min 5 s", "2 h 10 min", "4 d 3 h"
std::string RoundedDuration(std::chrono::milliseconds duration);

// A whole number and one of B, KiB, MiB, GiB, TiB.
StatusOr<uint64_t> ParseSize(std::string_view text);
std::string ExactSize(uint64_t bytes);
// "812 B", "1.5 KiB", "16 GiB"
std::string RoundedSize(uint64_t bytes);

// Decimal digits, with a minus sign for negative numbers.
StatusOr<int64_t> ParseInteger(std::string_view text);

}  // namespace lockstep
