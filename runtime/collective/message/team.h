// The ranks of a transport.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/collective/call.h"

namespace lockstep::collective::message {

struct Team {
  // Under which its members meet: the same on all of them.
  uint64_t key = 0;
  std::vector<Rank> members = {};  // ranks of the world
  int rank = 0;                    // this rank's number among them

  // All ranks of a world. `number` tells worlds apart that meet at one rendezvous.
  static Team OfWorld(uint64_t number, int size, Rank rank) {
    Team team = {.key = Mix(Mix(0, number), static_cast<uint64_t>(size)), .rank = rank};
    for (Rank r = 0; r < size; ++r) team.members.push_back(r);
    return team;
  }
  // The members that are named in `group_ranks`, as numbers among these; this rank is one of them.
  Team Split(absl::Span<const Rank> group_ranks, uint64_t tag) const {
    Team team = {.key = Mix(key, tag)};
    for (const Rank r : group_ranks) {
      if (r == rank) team.rank = static_cast<int>(team.members.size());
      team.key = Mix(team.key, static_cast<uint64_t>(r));
      team.members.push_back(members[static_cast<size_t>(r)]);
    }
    return team;
  }
};

}  // namespace lockstep::collective::message
