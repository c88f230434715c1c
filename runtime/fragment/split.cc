#include "runtime/fragment/split.h"

#include <array>
#include <sstream>

namespace lockstep::fragment {
namespace {

constexpr std::array<std::string_view, kSplitCount> kSplitNames = {"rows", "columns", "none",
                                                                   "placed"};
constexpr std::array<std::string_view, kCombineCount> kCombineNames = {
    "rows", "columns", "add", "mul", "min", "max", "none"};

template <typename T, size_t n>
StatusOr<T> ParseName(const std::array<std::string_view, n>& names, const char* what,
                      std::string_view name) {
  std::ostringstream known;
  for (size_t i = 0; i < n; ++i) {
    if (names[i] == name) return static_cast<T>(i);
    known << (i > 0 ? ", " : "") << names[i];
  }
  return InvalidArgument("\"", name, "\" is no ", what, "; there are ", known.str());
}

}  // namespace

std::string_view Name(Split split) { return kSplitNames[static_cast<size_t>(split)]; }
std::string_view Name(Combine combine) { return kCombineNames[static_cast<size_t>(combine)]; }

StatusOr<Split> ParseSplit(std::string_view name) {
  return ParseName<Split>(kSplitNames, "split", name);
}
StatusOr<Combine> ParseCombine(std::string_view name) {
  return ParseName<Combine>(kCombineNames, "combine", name);
}

std::optional<plan::Placement> PlacementFor(Split split) {
  if (split == Split::kAsPlaced) return std::nullopt;
  const std::optional<int> dimension = DimensionOf(split);
  return dimension.has_value() ? plan::Placement::Shard(*dimension) : plan::Placement::Replicate();
}

std::optional<plan::Placement> PlacementFor(Combine combine) {
  if (const auto dimension = DimensionOf(combine)) return plan::Placement::Shard(*dimension);
  if (const auto op = ReductionOf(combine)) return plan::Placement::Partial(*op);
  return std::nullopt;
}

std::optional<int> DimensionOf(Split split) {
  if (split == Split::kRows) return 0;
  if (split == Split::kColumns) return 1;
  return std::nullopt;
}

std::optional<int> DimensionOf(Combine combine) {
  if (combine == Combine::kRows) return 0;
  if (combine == Combine::kColumns) return 1;
  return std::nullopt;
}

std::optional<Reduction> ReductionOf(Combine combine) {
  switch (combine) {
    case Combine::kAdd:
      return Reduction::kSum;
    case Combine::kMul:
      return Reduction::kProd;
    case Combine::kMin:
      return Reduction::kMin;
    case Combine::kMax:
      return Reduction::kMax;
    default:
      return std::nullopt;
  }
}

}  // namespace lockstep::fragment
