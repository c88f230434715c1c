#include "tools/text/format.h"

#include <array>
#include <cstddef>
#include <cstdio>

namespace lockstep::text {

std::string FormatBytes(uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double amount = static_cast<double>(bytes);
  size_t unit = 0;
  while (amount >= 1024 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  const bool fraction = unit > 0 && amount < 100 && amount != std::uint64_t(amount);
  char text[32];
  std::snprintf(text, sizeof(text), fraction ? "%.1f %s" : "%.0f %s", amount, kUnits[unit]);
  return text;
}

std::string FormatDuration(std::chrono::milliseconds duration) {
  const int64_t ms = duration.count();
  char text[64];
  if (ms < 1000) {
    std::snprintf(text, sizeof(text), "%lld ms", static_cast<long long>(ms));
  } else if (ms < 60'000) {
    std::snprintf(text, sizeof(text), "%.1f s", static_cast<double>(ms) / 1000);
  } else {
    const long long seconds = ms / 1000;
    if (seconds < 3600) {
      std::snprintf(text, sizeof(text), "%lld min %lld s", seconds / 60, seconds % 60);
    } else if (seconds < 86'400) {
      std::snprintf(text, sizeof(text), "%lld h %lld min", seconds / 3600, seconds / 60 % 60);
    } else {
      std::snprintf(text, sizeof(text), "%lld d %lld h", seconds / 86'400, seconds / 3600 % 24);
    }
  }
  return text;
}

std::string FormatCount(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string Plural(uint64_t count, std::string_view noun) {
  return FormatCount(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string FormatRanks(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(ranks[i]);
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace lockstep::text
