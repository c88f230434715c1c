#include "runtime/base/rank_text.h"

namespace lockstep {
namespace {

std::string RankOrRanks(size_t count) { return count == 1 ? "rank " : "ranks "; }

// "rank 0, 1, 2", with `last_separator` before the last of several.
std::string ListAll(absl::Span<const Rank> ranks, const char* last_separator) {
  std::string text = RankOrRanks(ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? last_separator : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

}  // namespace

std::string ListRanks(absl::Span<const Rank> ranks) { return ListAll(ranks, ", "); }

std::string ListRanksWithAnd(absl::Span<const Rank> ranks) { return ListAll(ranks, " and "); }

std::string ListRankRanges(absl::Span<const Rank> ranks) {
  return RankOrRanks(ranks.size()) + RankRanges(ranks);
}

std::string RankRanges(absl::Span<const Rank> ranks) {
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

}  // namespace lockstep
