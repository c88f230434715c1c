// AllReduce, Reduce, ReduceScatter.
//
// Small: every rank reads all inputs from the slots. Large: every rank reads its slice of all
// inputs and writes the result to all who want it; each input is read once and each output written
// once. Inputs are always combined in rank order, so the bits do not depend on who computes them.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/operation.h"
#include "runtime/collective/shm/exchange.h"
#include "runtime/collective/shm/team.h"

namespace lockstep::collective::shm {

// Of arguments that have been checked; see Communicator.
//
// Threads: as the team. Ownership: the team outlives it.
class Reductions {
 public:
  explicit Reductions(Team& team);

  Status AllReduce(ConstBuffer send, Buffer recv, ReduceOp op, Deadline deadline);
  Status Reduce(ConstBuffer send, Buffer recv, ReduceOp op, Rank root, Deadline deadline);
  Status ReduceScatter(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                       Deadline deadline);

 private:
  int rank() const { return team_.rank(); }
  int size() const { return team_.size(); }
  // Combines this rank's share of a window, and writes it to `ranks`.
  void CombineWindow(const Exchange& x, const Window& window, DType dtype, ReduceOp op,
                     absl::Span<const int> ranks);

  Team& team_;
  // Scratch of one operation, so that none allocates.
  std::vector<const void*> sources_;
  std::vector<void*> destinations_;
  std::vector<int> receivers_;
};

}  // namespace lockstep::collective::shm
