#include "services/worker/execute/team.h"

#include <algorithm>
#include <numeric>

#include "runtime/collective/groups.h"
#include "runtime/control/value_codec.h"

namespace lockstep::worker {

const char* Name(wire::CollectiveKind kind) {
  const OperationFacts* const facts = control::FindOperation(kind);
  return facts == nullptr ? "collective" : facts->name.data();
}

StatusOr<TeamName> TeamOf(wire::Command::Collective::Reader command, int world_size) {
  if (!command.hasTeam() || command.getTeam().size() == 0) {
    return TeamName{command.getInGroup() ? TeamName::Kind::kGroups : TeamName::Kind::kWorld};
  }
  TeamName team{TeamName::Kind::kTeam};
  std::vector<bool> seen(static_cast<size_t>(world_size));
  for (Rank member : command.getTeam()) {
    const bool exists = member >= 0 && member < world_size;
    if (!exists || seen[static_cast<size_t>(member)]) {
      return InvalidArgument("the team has rank ", member, ", which ",
                             exists ? "it names twice" : "does not exist");
    }
    seen[static_cast<size_t>(member)] = true;
    team.ranks.push_back(member);
  }
  return team;
}

StatusOr<std::vector<Rank>> MembersOf(const TeamName& team, Rank rank, int world_size,
                                      int num_groups) {
  std::vector<Rank> members;
  switch (team.kind) {
    case TeamName::Kind::kTeam:
    case TeamName::Kind::kPlans:
      if (std::find(team.ranks.begin(), team.ranks.end(), rank) != team.ranks.end()) {
        members = team.ranks;
      }
      break;
    case TeamName::Kind::kGroups: {
      LOCKSTEP_ASSIGN_OR_RETURN(const collective::Groups groups,
                                collective::Groups::Split(world_size, num_groups));
      members = groups.Members(groups.GroupOf(rank));
      break;
    }
    case TeamName::Kind::kWorld:
      members.resize(static_cast<size_t>(world_size));
      std::iota(members.begin(), members.end(), 0);
      break;
  }
  return members;
}

}  // namespace lockstep::worker
