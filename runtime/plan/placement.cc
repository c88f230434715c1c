#include "runtime/plan/placement.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace lockstep::plan {
namespace {

// The text between "`name`(" and ")"; empty if `text` is not of that form.
std::optional<std::string_view> ArgumentOf(std::string_view text, std::string_view name) {
  if (!text.starts_with(name) || !text.ends_with(')')) return std::nullopt;
  text.remove_prefix(name.size());
  if (!text.starts_with('(')) return std::nullopt;
  return text.substr(1, text.size() - 2);
}

// A number that is not negative, and all of `text`, but for blanks before it.
template <typename Number>
std::optional<Number> ReadNumber(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end || number < 0) return std::nullopt;
  return number;
}

// "0", or "0: 3, 0, 5".
StatusOr<Placement> ParseShard(std::string_view argument) {
  const size_t colon = argument.find(':');
  const std::optional<int> dim = ReadNumber<int>(argument.substr(0, colon));
  if (!dim.has_value()) {
    return InvalidArgument("\"", argument, "\" does not name a dimension; write shard(0), say");
  }
  if (colon == std::string_view::npos) return Placement::Shard(*dim);
  std::vector<int64_t> extents;
  for (size_t begin = colon + 1; begin <= argument.size();) {
    const size_t comma = std::min(argument.find(',', begin), argument.size());
    const auto extent = ReadNumber<int64_t>(argument.substr(begin, comma - begin));
    if (!extent.has_value()) {
      return InvalidArgument("\"", argument,
                             "\" does not give an extent for each coordinate of an "
                             "axis; write shard(0: 3, 0, 5), say");
    }
    extents.push_back(*extent);
    begin = comma + 1;
  }
  return Placement::Shard(*dim, std::move(extents));
}

}  // namespace

GivenExtents::GivenExtents(std::vector<int64_t> counts) : counts_(std::move(counts)) {
  uint64_t begin = 0;
  for (const int64_t count : counts_) {
    begins_.push_back(static_cast<int64_t>(begin));
    begin += static_cast<uint64_t>(count);
  }
}

Placement Placement::Shard(int dim, std::vector<int64_t> extents) {
  return {Kind::kShard, dim, Reduction::kSum,
          std::make_shared<const GivenExtents>(std::move(extents))};
}

bool Placement::operator==(const Placement& other) const {
  if (kind != other.kind || dim != other.dim || op != other.op) return false;
  if (extents == other.extents) return true;
  return extents != nullptr && other.extents != nullptr && *extents == *other.extents;
}

std::string Placement::ToString() const {
  switch (kind) {
    case Kind::kReplicate:
      return "replicate";
    case Kind::kShard: {
      std::string text = "shard(" + std::to_string(dim);
      if (extents != nullptr) {
        const char* before = ": ";
        for (const int64_t extent : extents->counts()) {
          text += before + std::to_string(extent);
          before = ", ";
        }
      }
      return text + ")";
    }
    case Kind::kPartial:
      return "partial(" + std::string(Name(op)) + ")";
  }
  return "";
}

StatusOr<Placement> ParsePlacement(std::string_view text) {
  if (text == "replicate" || text == "R") return Placement::Replicate();
  for (const std::string_view name : {"shard", "S"}) {
    const std::optional<std::string_view> argument = ArgumentOf(text, name);
    if (argument.has_value()) return ParseShard(*argument);
  }
  for (const std::string_view name : {"partial", "P"}) {
    const std::optional<std::string_view> argument = ArgumentOf(text, name);
    if (!argument.has_value()) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(const Reduction op, ParseReduction(*argument));
    return Placement::Partial(op);
  }
  return InvalidArgument("unknown placement \"", text,
                         "\"; the placements are replicate, shard(DIMENSION), partial(REDUCTION)");
}

}  // namespace lockstep::plan
