// Which ranks take part in a collective.
#pragma once

#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "schemas/control.capnp.h"
#include "services/worker/communicator_cache.h"

namespace lockstep::worker {

// What the command calls its ranks. kInvalidArgument for ranks that do not exist or are named
// twice; the same on every rank.
StatusOr<TeamName> TeamOf(wire::Command::Collective::Reader command, int world_size);

// The world ranks that take part together with `rank`; empty if it takes no part.
StatusOr<std::vector<Rank>> MembersOf(const TeamName& team, Rank rank, int world_size,
                                      int num_groups);

}  // namespace lockstep::worker
