// The sessions that a lost controller has left with its workers.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/control/session_record.h"
#include "services/controller/common/membership.h"

namespace lockstep::controller {

struct RestoredSession {
  // As it goes on: under the latest generation that any worker knows, with the first command that
  // none of them has seen. `failure` says what became of the commands before.
  control::SessionRecord record;
  // Ranks that do not have it: the command from which on they take part.
  std::map<Rank, uint64_t> replaced;
};

// Puts the sessions together from what each rank has brought along; null: it has come with nothing.
// A lost controller may have reached some workers with its last commands and not others. Those
// commands are told in the session's failure, with the ranks that have executed them and may hold
// other values than the rest: nothing is made good silently.
//
// `by_rank` is what CountingInventories() has left.
std::vector<RestoredSession> RestoreSessions(const std::vector<const Inventory*>& by_rank);

// What counts is of the last world in which anything was executed, or of a later one, and of a
// world of this size; the rest becomes null. A worker that was lost before, or comes from
// elsewhere, may hold the same sessions as they were long ago.
std::vector<const Inventory*> CountingInventories(std::vector<const Inventory*> by_rank);

}  // namespace lockstep::controller
