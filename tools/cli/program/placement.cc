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

Flow FlowOf(const CollectiveStep& step, const World& world) {
  const int group_size = world.workers / world.groups;
  const RankSet participants =
      step.team.empty() ? RankSet::All(world.workers) : RankSet::Of(world.workers, step.team);
  RankSet roots = RankSet::None(world.workers);
  if (!step.team.empty()) {
    roots.Add(step.team.at(static_cast<size_t>(step.root)));
  } else if (!step.in_group) {
    roots.Add(step.root);
  } else {
    for (Rank first = 0; first < world.workers; first += group_size) roots.Add(first + step.root);
  }

  switch (FactsOf(step.kind).flow) {
    case DataFlow::kAmongAll:
      break;
    case DataFlow::kToRoot:
      return {participants, roots};
    case DataFlow::kFromRoot:
      return {roots, participants};
    case DataFlow::kToPeer:
      return {RankSet::Of(world.workers, {step.from}), RankSet::Of(world.workers, {step.to})};
    case DataFlow::kToNextGroup: {
      RankSet senders = RankSet::None(world.workers);
      RankSet receivers = RankSet::None(world.workers);
      for (Rank rank = 0; rank < world.workers; ++rank) {
        if (rank + group_size < world.workers) senders.Add(rank);
        if (rank >= group_size) receivers.Add(rank);
      }
      return {senders, receivers};
    }
  }
  return {participants, participants};
}

}  // namespace lockstep::cli::program
