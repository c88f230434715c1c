// Lists of ranks in messages and tables, short also where there are thousands.
//
// The ranks are written in the order in which they are given, three or more in a row as a range. Of
// more parts than these the rest is counted; JSON has them all.
#pragma once

#include <cstddef>
#include <string>

#include "absl/types/span.h"
#include "runtime/base/ids.h"

namespace lockstep {

inline constexpr size_t kMostRankParts = 16;

// "rank 3", "ranks 0, 1", "ranks 0-2, 5, 7-9", "ranks 0, 2, ..., 30 and 484 more"
std::string ListRanks(absl::Span<const Rank> ranks);

// The same without the word, for a column of a table: "3", "0-2, 5, 7-9"
std::string RankRanges(absl::Span<const Rank> ranks);

}  // namespace lockstep
