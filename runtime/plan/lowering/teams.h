// Teams: which ranks meet in each collective of a reshard.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/plan/lowering/reshard.h"

namespace lockstep::plan {

using Team = std::vector<Rank>;

// The teams of one collective, which have no rank in common. Ranks that have nothing to do with
// each other in an exchange are no team: they do not wait for each other.
//
// Immutable: what is expanded for each rank shares it. Threads: any.
class Teams {
 public:
  explicit Teams(std::vector<Team> teams);

  auto begin() const { return teams_.begin(); }
  auto end() const { return teams_.end(); }
  // That of them which `rank` is in; empty: none.
  const Team& With(Rank rank) const;
  bool operator==(const Teams& other) const { return teams_ == other.teams_; }

 private:
  std::vector<Team> teams_;
  std::vector<std::pair<Rank, size_t>> by_rank_;  // ascending; which team
};

// How many collectives the move takes.
size_t CountCollectives(const Move& move);

// The teams of all collectives of all moves, by their numbers (CollectiveStep). The same on all
// ranks, whether they are in a team or not. LowerReshard() calls it, once: Reshard::teams.
std::vector<std::shared_ptr<const Teams>> TeamsOf(const Layout& from,
                                                  const std::vector<Move>& moves);

}  // namespace lockstep::plan
