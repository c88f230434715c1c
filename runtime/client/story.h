// What holds a cluster up, made out of what its workers say: the answer to "why does it not go on?"
#pragma once

#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/client/admin.h"

namespace lockstep {

// Somebody that others may be waiting for.
struct Culprit {
  enum class Kind {
    kLost,    // its process has ended, or it is silent for too long
    kSilent,  // it is not lost yet, but does not answer
    kBusy,    // it executes something of its own
    kBehind,  // it does not, or waits in an earlier collective, and others have got further
  };
  Kind kind = Kind::kBusy;
  Rank rank = 0;
  bool stuck = false;         // busy for longer than `stuck_after`
  std::vector<Rank> waiting;  // who is in a collective meanwhile that it has not come to
};

struct ClusterStory {
  // Those who hold up most others come first.
  std::vector<Culprit> culprits;
  // In one collective although there is no culprit: they work.
  std::vector<Rank> together;

  // What to tell people in one line: "rank 2 is stuck", "nothing is executed", ...
  std::string summary;
};

// `status` as ExplainCluster() gave it.
ClusterStory TellStory(const ClusterStatus& status);

}  // namespace lockstep
