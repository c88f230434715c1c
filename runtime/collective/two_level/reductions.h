// AllReduce, Reduce, ReduceScatter.
//
// Inside, every rank with a rail combines its slice of the node's data; across, the nodes' results
// are combined slice by slice; inside again, the slices are handed out. Each node sends and
// receives what it has about twice, however many ranks it has.
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
class Reductions {
 public:
  explicit Reductions(StageRunner& runner);

  Status AllReduce(ConstBuffer send, Buffer recv, ReduceOp op, Deadline deadline);
  Status Reduce(ConstBuffer send, Buffer recv, ReduceOp op, Rank root, Deadline deadline);
  Status ReduceScatter(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                       Deadline deadline);

 private:
  Rank rank() const { return runner_.rank(); }
  int size() const { return runner_.size(); }
  // Combines `send` over the node; every rank gets its slice of the result. In place as in
  // Communicator::ReduceScatter().
  Status ReduceInside(ConstBuffer send, Buffer mine, Counts counts, ReduceOp op, Deadline deadline);
  // The three reductions in dtypes wide enough for what is formed on the way.
  Status AllReduceStages(ConstBuffer send, Buffer recv, ReduceOp op, const Stages& stages);
  Status ReduceStages(ConstBuffer send, Buffer recv, ReduceOp op, Rank root, const Stages& stages);
  Status ReduceScatterStages(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                             const Stages& stages);

  StageRunner& runner_;
  const Layout& layout_;
  Communicator* const node_;  // null: this rank is alone in its node
};

}  // namespace lockstep::collective::two_level
