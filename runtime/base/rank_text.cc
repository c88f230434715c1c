#include "runtime/base/rank_text.h"

namespace lockstep {

std::string ListRanks(absl::Span<const Rank> ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + RankRanges(ranks);
}

std::string RankRanges(absl::Span<const Rank> ranks) {
  std::string text;
  size_t parts = 0;
  for (size_t i = 0; i < ranks.size();) {
    if (parts == kMostRankParts) {
      return text + " and " + std::to_string(ranks.size() - i) + " more";
    }
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    // Two in a row are two parts.
    if (last == i + 1) last = i;
    if (!text.empty()) text += ", ";
    text += std::to_string(ranks[i]);
    if (last > i) text += "-" + std::to_string(ranks[last]);
    ++parts;
    i = last + 1;
  }
  return text;
}

}  // namespace lockstep
