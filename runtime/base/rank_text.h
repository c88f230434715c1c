// Lists of ranks in messages and tables.
//
// Each function takes the ranks in the order in which they are written. "rank" is in the singular
// for exactly one.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "runtime/base/ids.h"

namespace lockstep {

// "rank 3", "ranks 0, 1, 3"
std::string ListRanks(absl::Span<const Rank> ranks);

// For sentences: "rank 3", "ranks 0 and 1", "ranks 0, 1 and 3"
std::string ListRanksWithAnd(absl::Span<const Rank> ranks);

// Three or more in a row as a range: "rank 3", "ranks 0, 1", "ranks 0-2, 5, 7-9"
std::string ListRankRanges(absl::Span<const Rank> ranks);

// The same without the word, for a column of a table: "3", "0-2, 5, 7-9"
std::string RankRanges(absl::Span<const Rank> ranks);

}  // namespace lockstep
