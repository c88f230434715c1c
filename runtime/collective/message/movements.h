// Broadcast, AllGather, Gather, Scatter, AllToAll: data goes from who has it to who wants it, in
// one round. A large broadcast takes two: the root deals slices out, which the others pass on, so
// that no rank sends everything more than once.
#pragma once

#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/message/round_runner.h"
#include "runtime/collective/operation.h"

namespace lockstep::collective::message {

// Of arguments that have been checked; see Communicator.
//
// Threads: one at a time. Ownership: `rounds` is borrowed.
class Movements {
 public:
  explicit Movements(RoundRunner& rounds) : rounds_(rounds) {}

  Status Broadcast(ConstBuffer send, Buffer recv, Rank root, Deadline deadline);
  Status AllGather(ConstBuffer send, Buffer recv, Counts counts, Deadline deadline);
  Status Gather(ConstBuffer send, Buffer recv, Counts counts, Rank root, Deadline deadline);
  Status Scatter(ConstBuffer send, Buffer recv, Counts counts, Rank root, Deadline deadline);
  Status AllToAll(ConstBuffer send, Counts send_counts, Buffer recv, Counts recv_counts,
                  Deadline deadline);

 private:
  int rank() const { return rounds_.rank(); }
  int size() const { return rounds_.size(); }

  RoundRunner& rounds_;
};

}  // namespace lockstep::collective::message
