// Which ranks take part in a collective, and what people call the collective.
#pragma once

#include <compare>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "schemas/control.capnp.h"

namespace lockstep::worker {

// "allreduce", "reduce-scatter", ...: how errors, timelines and activities name the operation.
const char* Name(wire::CollectiveKind kind);

// Of one rank to one other: only who sends or receives it has a part.
inline bool IsMessage(wire::CollectiveKind kind) { return kind >= wire::CollectiveKind::TRANSFER; }

// What a collective command calls its ranks. Every rank of the world calls them alike, whether it
// is among them or not; so "each rank's group" is one name, though it means others on each rank.
struct TeamName {
  enum class Kind { kWorld, kGroups, kTeam, kPlans };

  Kind kind = Kind::kWorld;
  // Of kTeam, in the team's order; of kPlans, that of bound plans, which have communicators of
  // their own.
  std::vector<Rank> ranks = {};

  auto operator<=>(const TeamName&) const = default;
};

// What the command calls its ranks. kInvalidArgument for ranks that do not exist or are named
// twice; the same on every rank.
StatusOr<TeamName> TeamOf(wire::Command::Collective::Reader command, int world_size);

// The world ranks that take part together with `rank`; empty if it takes no part.
StatusOr<std::vector<Rank>> MembersOf(const TeamName& team, Rank rank, int world_size,
                                      int num_groups);

}  // namespace lockstep::worker
