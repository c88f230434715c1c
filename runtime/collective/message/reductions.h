// AllReduce, Reduce, ReduceScatter.
//
// Small: every rank that wants the result gets all inputs, and combines them. Large: rank r
// combines slice r of all inputs, and hands it to who wants it; each rank sends and receives its
// input about twice, the least that is possible (as in Rabenseifner's algorithm, but directly,
// without a tree: every rank can reach every other). Window by window, so that the memory for
// others' inputs is bounded, and a window's results travel while the next one's inputs do.
#pragma once

#include <cstddef>

#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/message/round_runner.h"
#include "runtime/collective/operation.h"
#include "runtime/collective/workspace.h"

namespace lockstep::collective::message {

// Of arguments that have been checked; see Communicator. Computed by the kernels that all backends
// share, with the inputs in rank order.
//
// Threads: one at a time. Ownership: `rounds` is borrowed.
class Reductions {
 public:
  explicit Reductions(RoundRunner& rounds) : rounds_(rounds) {}

  Status AllReduce(ConstBuffer send, Buffer recv, ReduceOp op, Deadline deadline);
  Status Reduce(ConstBuffer send, Buffer recv, ReduceOp op, Rank root, Deadline deadline);
  Status ReduceScatter(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                       Deadline deadline);

 private:
  int rank() const { return rounds_.rank(); }
  int size() const { return rounds_.size(); }
  // Memory for `size_bytes` of others' inputs, until the next call. Having none is a failure.
  StatusOr<std::byte*> Scratch(size_t size_bytes);
  // Combines the inputs of all ranks, which begin at inputs[r], in rank order.
  void Combine(absl::Span<const void* const> inputs, void* result, size_t count, DType dtype,
               ReduceOp op) const;
  // Combines in slices: every rank one of them, which it then hands to rank `root`, or to all (-1).
  Status ReduceInSlices(const Announcement& announced, ConstBuffer send, Buffer recv, ReduceOp op,
                        Rank root, Deadline deadline);

  RoundRunner& rounds_;
  Workspace scratch_;
};

}  // namespace lockstep::collective::message
