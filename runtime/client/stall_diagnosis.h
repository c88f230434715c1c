// What holds a cluster up, made out of what its workers say: the answer to "why does it not go on?"
#pragma once

#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/client/admin.h"

namespace lockstep {

// A rank that others may be waiting for.
struct Blocker {
  enum class Kind {
    kEnded,   // it executes something of a session that has ended, and holds all others up
    kLost,    // its process has ended, or it is silent for too long
    kSilent,  // it is not lost yet, but does not answer
    kBusy,    // it executes something of its own
    kBehind,  // it does not, or waits in an earlier collective, and others have got further
  };
  Kind kind = Kind::kBusy;
  Rank rank = 0;
  bool stuck = false;         // busy for longer than it should be: WorkerStatus::stuck
  std::vector<Rank> waiting;  // who is in a collective meanwhile that it has not come to
};

struct StallDiagnosis {
  // Those with the work of a session that has ended come first, because new sessions wait for them,
  // too; then those who hold up most others; of those who hold up as many, those who do what few
  // do.
  std::vector<Blocker> blockers;
  // In one collective although there is no blocker: they work.
  std::vector<Rank> together;

  // What to tell people in one line: it names the ranks that hold the others up, or says that no
  // rank is stuck. "rank 2 is stuck in solve", "no rank is stuck: ranks 0-63 are busy in solve"
  std::string summary;
};

// `status` as ExplainCluster() gave it.
StallDiagnosis DiagnoseStall(const ClusterStatus& status);

// What an operator can do about blockers of this kind: how a lost worker is replaced, how one is
// ended that does not end by itself. Empty: nothing has to be done, or it is not known.
std::string AdviceFor(const ClusterStatus& status, Blocker::Kind kind,
                      const std::vector<Rank>& ranks);

}  // namespace lockstep
