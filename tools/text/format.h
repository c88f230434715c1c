// Numbers as people read them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::text {

// "812 B", "1.5 KiB", "16 GiB"
std::string FormatBytes(uint64_t bytes);
// "350 ms", "2.4 s", "3 min 5 s", "2 h 10 min", "4 d 3 h"
std::string FormatDuration(std::chrono::milliseconds duration);
// "12,345,678"
std::string FormatCount(uint64_t count);
// "1 worker", "4 workers"
std::string Plural(uint64_t count, std::string_view noun);
// "0-3, 6" for sorted ranks.
std::string FormatRanks(const std::vector<int>& ranks);

}  // namespace lockstep::text
