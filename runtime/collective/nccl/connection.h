// What of a communicator is on a GPU.
#pragma once

#include "runtime/base/status.h"

namespace lockstep::collective::nccl {

// Whoever has put operations there may hold it until they are done, also when the communicator is
// gone: it ends with the last who holds it, in order if all ranks end theirs within a moment, else
// by an abort, and nobody waits for that (endings.h). An operation that is not done a moment after
// is cut off.
//
// Threads: Abort() and is_aborted() from any; the rest one at a time.
class Connection {
 public:
  virtual ~Connection() = default;
  // What has gone wrong in the background, with what was begun.
  virtual Status Health() = 0;
  // Ends what it does on the GPU and in the network, and every wait here; returns at once. What
  // operations that were not done have written is of no worth.
  virtual void Abort(const Status& cause) = 0;
  virtual bool is_aborted() const = 0;
  // The other ranks do not end theirs together with this one.
  virtual void EndAlone() = 0;
};

}  // namespace lockstep::collective::nccl
