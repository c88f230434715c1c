// On which ranks a register holds a value, as far as that follows from the program alone.
#pragma once

#include <vector>

#include "runtime/base/ids.h"
#include "tools/cli/program/program.h"

namespace lockstep::cli::program {

// A set of the world's ranks. Of a world whose size is not known, every set is "all".
class RankSet {
 public:
  static RankSet All(int workers) { return RankSet(std::vector<bool>(AsSize(workers), true)); }
  static RankSet None(int workers) { return RankSet(std::vector<bool>(AsSize(workers), false)); }
  static RankSet Of(int workers, const std::vector<Rank>& ranks);

  void Add(Rank rank);
  bool Contains(Rank rank) const { return members_.empty() || members_.at(AsSize(rank)); }
  // Ranks of `this` that are not in `other`.
  std::vector<Rank> Without(const RankSet& other) const;
  std::vector<Rank> ToList() const;

 private:
  explicit RankSet(std::vector<bool> members) : members_(std::move(members)) {}
  static size_t AsSize(int number) { return static_cast<size_t>(number); }

  std::vector<bool> members_;
};

struct RankLayout {
  int workers = 0;  // 0: not known
  int groups = 1;
};

// Which ranks contribute to a collective, and which receive its result. Its ranks must exist in the
// layout.
struct CollectiveEnds {
  RankSet senders;
  RankSet receivers;
};
CollectiveEnds EndsOf(const CollectiveStep& step, const RankLayout& layout);

}  // namespace lockstep::cli::program
