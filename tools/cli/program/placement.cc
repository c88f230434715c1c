#include "tools/cli/program/placement.h"

namespace lockstep::cli::program {

RankSet RankSet::Of(int workers, const std::vector<Rank>& ranks) {
  RankSet set = None(workers);
  for (Rank rank : ranks) set.Add(rank);
  return set;
}

void RankSet::Add(Rank rank) {
  if (!members_.empty()) members_.at(AsSize(rank)) = true;
}

std::vector<Rank> RankSet::Without(const RankSet& other) const {
  std::vector<Rank> ranks;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    if (members_[rank] && !other.members_[rank]) ranks.push_back(static_cast<Rank>(rank));
  }
  return ranks;
}

std::vector<Rank> RankSet::ToList() const {
  return Without(None(static_cast<int>(members_.size())));
}

CollectiveEnds EndsOf(const CollectiveStep& step, const RankLayout& layout) {
  const int group_size = layout.workers / layout.groups;
  const RankSet participants =
      step.team.empty() ? RankSet::All(layout.workers) : RankSet::Of(layout.workers, step.team);
  RankSet roots = RankSet::None(layout.workers);
  if (!step.team.empty()) {
    roots.Add(step.team.at(static_cast<size_t>(step.root)));
  } else if (!step.in_group) {
    roots.Add(step.root);
  } else {
    for (Rank first = 0; first < layout.workers; first += group_size) roots.Add(first + step.root);
  }

  switch (FactsOf(step.kind).flow) {
    case DataFlow::kAmongAll:
      break;
    case DataFlow::kToRoot:
      return {participants, roots};
    case DataFlow::kFromRoot:
      return {roots, participants};
    case DataFlow::kToPeer:
      return {RankSet::Of(layout.workers, {step.from}), RankSet::Of(layout.workers, {step.to})};
    case DataFlow::kToNextGroup: {
      RankSet senders = RankSet::None(layout.workers);
      RankSet receivers = RankSet::None(layout.workers);
      for (Rank rank = 0; rank < layout.workers; ++rank) {
        if (rank + group_size < layout.workers) senders.Add(rank);
        if (rank >= group_size) receivers.Add(rank);
      }
      return {senders, receivers};
    }
  }
  return {participants, participants};
}

}  // namespace lockstep::cli::program
