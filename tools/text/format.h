// Numbers as people read them; durations and sizes are in runtime/base/quantity.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::text {

// "12,345,678"
std::string FormatCount(uint64_t count);
// "1 worker", "4 workers"
std::string Plural(uint64_t count, std::string_view noun);
// Lines of at most `width` characters, broken at blanks; a longer word has a line of its own.
std::vector<std::string> Wrap(std::string_view text, int width);

}  // namespace lockstep::text
