// Broadcast, AllGather, Gather, Scatter, AllToAll, Barrier.
//
// What several nodes want crosses once to each of them, in slices over all rails. Only an
// all-to-all crosses from rank to rank, for no two ranks want the same of it.
#pragma once

#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/operation.h"
#include "runtime/collective/two_level/stage_runner.h"

namespace lockstep::collective::two_level {

// Of arguments that have been checked; see Communicator.
//
// Threads: one at a time. Ownership: `runner` is borrowed.
class Movements {
 public:
  explicit Movements(StageRunner& runner);

  Status Broadcast(ConstBuffer send, Buffer recv, Rank root, Deadline deadline);
  Status AllGather(ConstBuffer send, Buffer recv, Counts counts, Deadline deadline);
  Status Gather(ConstBuffer send, Buffer recv, Counts counts, Rank root, Deadline deadline);
  Status Scatter(ConstBuffer send, Buffer recv, Counts counts, Rank root, Deadline deadline);
  Status AllToAll(ConstBuffer send, Counts send_counts, Buffer recv, Counts recv_counts,
                  Deadline deadline);
  Status Barrier(Deadline deadline);

 private:
  Rank rank() const { return runner_.rank(); }
  // OK if all nodes have come to the same operation.
  Status MeetAcross(const Stages& stages);
  // All data of this node's ranks, one after the other, on every rank of the node.
  StatusOr<ConstBuffer> GatherInside(ConstBuffer send, Counts counts, Deadline deadline);

  StageRunner& runner_;
  const Layout& layout_;
  Communicator* const node_;  // null: this rank is alone in its node
};

}  // namespace lockstep::collective::two_level
