// Teams: which ranks meet in each collective of a reshard.
#pragma once

#include <vector>

#include "runtime/base/ids.h"
#include "runtime/plan/reshard.h"

namespace lockstep::plan {

using Team = std::vector<Rank>;

// The teams of each collective of a move, in their order; those of one collective have no rank in
// common. `before`: the layout that the move begins with. Ranks that have nothing to do with each
// other in an exchange are no team: they do not wait for each other.
std::vector<std::vector<Team>> TeamsOfMove(const Move& move, const Layout& before);

// The same of all moves: the collectives by their numbers (CollectiveStep). The same on all ranks,
// whether they are in a team or not.
std::vector<std::vector<Team>> TeamsOf(const Reshard& reshard);

// That of them which `rank` is in; empty: none.
Team TeamWith(const std::vector<Team>& teams, Rank rank);

}  // namespace lockstep::plan
