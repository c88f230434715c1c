// Which communicators a session keeps, and which it gives up to make others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/device_communicator.h"
#include "services/worker/execute/team.h"

namespace lockstep::worker {

// How the ranks of a team are connected. Without any: on ranks that are not in it.
struct Communicators {
  std::shared_ptr<collective::Communicator> cpus;
  // By their GPUs; null: not all of them have one.
  std::shared_ptr<collective::DeviceCommunicator> gpus;
};

// The communicators of one generation of a session, by name. World and groups stay; of the teams,
// those used last.
//
// No rank asks another what to keep. Every rank executes every command of the session, in the same
// order, and notes every collective here, also those it has no part in. So all caches hold the same
// names at the same command, give up the same teams at the same command, and count alike: a team
// that comes again is made by all its members, under a number that no communicator had before.
// Ranks get there at different times, which does no harm: a rank has finished its part of all that
// came before, and its peers finish theirs without it.
//
// Threads: one at a time.
class CommunicatorCache {
 public:
  using Evicted = std::vector<Communicators>;

  // Teams that one rank is in. Each costs it about 10 KiB of shared memory, which all sessions of
  // the cluster share, and making it again a meeting of its ranks.
  static constexpr int kMaxTeamsOfARank = 16;

  struct Entry {
    TeamName name;
    // Counts the entries of this generation; the same on all ranks.
    uint32_t serial = 0;
    // Without any until they are made, and on ranks that are not in the team.
    Communicators communicators;
  };

  // The entry of `name`, which is now the one used last: the old one, or a new one, for which those
  // teams may have to go that have not been used for longest and share a rank with it. What goes is
  // added to `*evicted`, for the caller to destroy. Valid until it goes itself.
  Entry& Use(const TeamName& name, Evicted* evicted);

  void ForEach(const std::function<void(const Communicators&)>& visit) const;

 private:
  void MakeRoomFor(Rank rank, Evicted* evicted);

  std::list<Entry> entries_;  // the one used last is in front
  std::map<TeamName, std::list<Entry>::iterator> by_name_;
  std::map<Rank, int> teams_of_;
  uint32_t made_ = 0;
};

}  // namespace lockstep::worker
