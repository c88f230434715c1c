#include "runtime/base/quantity.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <optional>

namespace lockstep {
namespace {

struct Unit {
  std::string_view name;
  int64_t factor;
};

// From small to large; each factor divides the next.
constexpr Unit kDurationUnits[] = {
    {"us", 1}, {"ms", 1'000}, {"s", 1'000'000}, {"min", 60'000'000}, {"h", 3'600'000'000}};
constexpr Unit kSizeUnits[] = {{"B", 1},
                               {"KiB", int64_t{1} << 10},
                               {"MiB", int64_t{1} << 20},
                               {"GiB", int64_t{1} << 30},
                               {"TiB", int64_t{1} << 40}};

// The number `text` begins with, and how many characters it has; none if there is no number or it
// does not fit.
struct LeadingNumber {
  int64_t value;
  size_t length;
};
std::optional<LeadingNumber> ReadNumber(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return LeadingNumber{value, static_cast<size_t>(end - text.data())};
}

// "12ms" in the smallest of `units`; none if it is malformed, negative or too large.
template <size_t N>
std::optional<int64_t> ReadQuantity(std::string_view text, const Unit (&units)[N]) {
  const std::optional<LeadingNumber> number = ReadNumber(text);
  if (!number.has_value() || number->value < 0) return std::nullopt;
  const std::string_view name = text.substr(number->length);
  for (const Unit& unit : units) {
    if (unit.name != name) continue;
    if (number->value > std::numeric_limits<int64_t>::max() / unit.factor) return std::nullopt;
    return number->value * unit.factor;
  }
  return std::nullopt;
}

template <size_t N>
std::string Print(int64_t value, const Unit (&units)[N]) {
  const Unit* largest = &units[0];
  for (const Unit& unit : units) {
    if (value != 0 && value % unit.factor == 0) largest = &unit;
  }
  return std::to_string(value / largest->factor) + std::string(largest->name);
}

}  // namespace

StatusOr<std::chrono::microseconds> ParseDuration(std::string_view text) {
  const std::optional<int64_t> value = ReadQuantity(text, kDurationUnits);
  if (!value.has_value()) {
    return InvalidArgument("\"", text,
                           "\" is not a duration: write a whole number and a unit (us, ms, s, min, "
                           "h), such as 500ms");
  }
  return std::chrono::microseconds(*value);
}

std::string ExactDuration(std::chrono::microseconds value) {
  return Print(value.count(), kDurationUnits);
}

std::string RoundedDuration(std::chrono::milliseconds duration) {
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

StatusOr<uint64_t> ParseSize(std::string_view text) {
  const std::optional<int64_t> value = ReadQuantity(text, kSizeUnits);
  if (!value.has_value()) {
    return InvalidArgument("\"", text,
                           "\" is not a size: write a whole number and a unit (B, KiB, MiB, GiB, "
                           "TiB), such as 8MiB");
  }
  return static_cast<uint64_t>(*value);
}

std::string ExactSize(uint64_t bytes) { return Print(static_cast<int64_t>(bytes), kSizeUnits); }

std::string RoundedSize(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto amount = static_cast<double>(bytes);
  size_t unit = 0;
  while (amount >= 1024 && unit + 1 < std::size(kUnits)) {
    amount /= 1024;
    ++unit;
  }
  const bool fraction = unit > 0 && amount < 100 && amount != std::floor(amount);
  char text[32];
  std::snprintf(text, sizeof(text), fraction ? "%.1f %s" : "%.0f %s", amount, kUnits[unit]);
  return text;
}

StatusOr<int64_t> ParseInteger(std::string_view text) {
  const std::optional<LeadingNumber> number = ReadNumber(text);
  if (!number.has_value() || number->length != text.size()) {
    return InvalidArgument("\"", text, "\" is not a whole number");
  }
  return number->value;
}

}  // namespace lockstep
