// Collective operations among the ranks of one group.
//
// A backend (shm, tcp, gloo, mpi, nccl) implements this interface in a folder of its own; it
// holds only what every backend can do. All of them pass tests/conformance. Every operation comes
// in by Run(), which checks its arguments before any other rank is told about it.
//
// Threads: one caller at a time, and every rank of the group issues the same sequence of
//          operations. Only Abort() may be called from another thread at any time.
// Ownership: buffers are borrowed until the call returns; when it returns with OK, `recv` holds the
//          result and `send` may be reused. After an error `recv` is undefined; see
//          RecvMayStillChange(). In the memory of a GPU (nccl) all this holds in the order of its
//          streams instead: a call enqueues its work once all ranks have arrived.
// Buffers: `count` is in elements. Sending and receiving memory is either identical (in place,
//          where the operation says what that means) or does not overlap.
// Errors:  kInvalidArgument   bad count, dtype, root, or ranks that disagree about the operation:
//                             the message names the ranks and the difference
//          kDeadlineExceeded  a peer did not come in time; the message names it
//          kAborted           Abort() was called; the message is its cause
//          kUnavailable       a peer is lost
//          kDataLoss          what a peer sent was changed on its way (where that is encrypted);
//                             the message names the two
//          kResourceExhausted memory or a thread that the operation needs cannot be had
//          After any error but a locally detected kInvalidArgument the communicator is unusable
//          (every later call returns the first error); make a new one with Split().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/operation.h"

namespace lockstep::collective {

class Communicator {
 public:
  virtual ~Communicator() = default;

  // This process's place in the group, and the group's size.
  virtual Rank rank() const = 0;
  virtual int size() const = 0;
  // The world ranks of the members, in the group's rank order.
  virtual absl::Span<const Rank> members() const = 0;
  // "shm", "gloo", ...
  virtual std::string_view backend() const = 0;

  // A new communicator among the members named in `group_ranks` (ranks of THIS communicator, no
  // duplicates, in the order that becomes the new rank order). Exactly those members call Split
  // with the same list and the same `tag`; the others do nothing. A `tag` is not used twice for the
  // same list while a communicator made with it lives. Closing the new one leaves this one
  // untouched. `cancelled`, if given, ends the wait for the others with kAborted as soon as it is
  // true: what does not exist yet cannot be aborted.
  StatusOr<std::unique_ptr<Communicator>> Split(absl::Span<const Rank> group_ranks, uint64_t tag,
                                                Deadline deadline,
                                                const std::atomic<bool>* cancelled = nullptr) {
    return DoSplit(group_ranks, tag, deadline, cancelled);
  }

  // Does one of the operations that follow, which are named functions for it.
  Status Run(const Operation& operation, Deadline deadline);

  // Combines `send` over all ranks; every rank gets the result in `recv`.
  // Shapes: send [count], recv [count]. In place: recv is send.
  // The result has the same bits on every rank (but which NaN a NaN is): inputs are combined in
  // rank order; where nodes are connected by a network, those of a node first, in that order, and
  // then the nodes' results. f16 and bf16 accumulate in f32.
  // min and max do not depend on that order: NaN if any input is, and -0 is less than +0.
  // Sums and products of integers wrap. avg is sum / size; integers truncate towards zero. Those of
  // up to 32 bits never wrap on the way; of 64-bit integers, avg divides a sum that may have
  // wrapped. Of bool, sum and max are "or", prod and min "and", and avg is not defined. Any byte
  // but 0 is true; a result is 0 or 1.
  Status AllReduce(ConstBuffer send, Buffer recv, ReduceOp op, Deadline deadline) {
    return Run({.kind = Kind::kAllReduce, .send = send, .recv = recv, .op = op}, deadline);
  }

  // As AllReduce, but only `root` gets the result; the others' `recv` is ignored (pass {}).
  Status Reduce(ConstBuffer send, Buffer recv, ReduceOp op, Rank root, Deadline deadline) {
    return Run({.kind = Kind::kReduce, .send = send, .recv = recv, .op = op, .root = root},
               deadline);
  }

  // Every rank gets root's elements in `recv` (the root too: in place if recv is send).
  // `send` is read at the root only; the others pass {}. recv.count is the same on all ranks.
  Status Broadcast(ConstBuffer send, Buffer recv, Rank root, Deadline deadline) {
    return Run({.kind = Kind::kBroadcast, .send = send, .recv = recv, .root = root}, deadline);
  }

  // Rank r contributes send[counts[r]]; every rank gets the concatenation in rank order.
  // Shapes: send [counts[rank]], recv [sum(counts)]. In place: send is recv's part of this rank.
  Status AllGather(ConstBuffer send, Buffer recv, Counts counts, Deadline deadline) {
    return Run({.kind = Kind::kAllGather, .send = send, .recv = recv, .counts = counts}, deadline);
  }

  // As AllGather, but only `root` receives; the others pass {} for `recv`.
  Status Gather(ConstBuffer send, Buffer recv, Counts counts, Rank root, Deadline deadline) {
    return Run({.kind = Kind::kGather, .send = send, .recv = recv, .counts = counts, .root = root},
               deadline);
  }

  // Combines `send` over all ranks and deals the result out: rank r gets the part that begins at
  // counts[0] + .. + counts[r-1] and is counts[r] long.
  // Shapes: send [sum(counts)], recv [counts[rank]]. In place: recv is send's part of this rank
  // (the rest of `send` is left unchanged).
  Status ReduceScatter(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                       Deadline deadline) {
    return Run(
        {.kind = Kind::kReduceScatter, .send = send, .recv = recv, .op = op, .counts = counts},
        deadline);
  }

  // Deals root's `send` [sum(counts)] out in rank order; the others pass {} for `send`.
  // In place at the root: recv is send's part of the root.
  Status Scatter(ConstBuffer send, Buffer recv, Counts counts, Rank root, Deadline deadline) {
    return Run({.kind = Kind::kScatter, .send = send, .recv = recv, .counts = counts, .root = root},
               deadline);
  }

  // Sends send_counts[r] elements to rank r (parts in rank order), receives recv_counts[r] from it.
  // send_counts[r] on rank q equals recv_counts[q] on rank r. Never in place.
  Status AllToAll(ConstBuffer send, Counts send_counts, Buffer recv, Counts recv_counts,
                  Deadline deadline) {
    return Run({.kind = Kind::kAllToAll,
                .send = send,
                .recv = recv,
                .counts = send_counts,
                .recv_counts = recv_counts},
               deadline);
  }

  // Point to point. A send returns when `send` may be reused, which may be before or after the
  // receiver comes. Messages between two ranks arrive in order; count and dtype of both sides are
  // equal. A rank neither sends to itself nor receives from itself.
  Status Send(ConstBuffer send, Rank to, Deadline deadline) {
    return Run({.kind = Kind::kSend, .send = send, .to = to}, deadline);
  }
  Status Recv(Buffer recv, Rank from, Deadline deadline) {
    return Run({.kind = Kind::kRecv, .recv = recv, .from = from}, deadline);
  }
  // Both at once, so that rings and chains of ranks never wait for each other in a circle.
  Status SendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from, Deadline deadline) {
    return Run({.kind = Kind::kSendRecv, .send = send, .recv = recv, .to = to, .from = from},
               deadline);
  }

  // Returns when every rank has called it.
  Status Barrier(Deadline deadline) { return Run({.kind = Kind::kBarrier}, deadline); }

  // OK, or the failure that ended this communicator: what every later operation returns.
  virtual Status Usable() { return OkStatus(); }
  // The backend can reduce elements of this dtype so; kInvalidArgument tells why not.
  // CheckReduction() in checks.h says what all can.
  virtual Status CheckReducible(ReduceOp op, DType dtype) const;

  // After an operation that failed: true if a peer was writing to its `recv` and was not waited for
  // to finish, because its process was stopped, say. It may go on at any later time, so nothing of
  // worth may be kept in that memory: release it. The allocator that the backend works with (shm:
  // the rank's arena) does not hand it out again before the peer is through, or has ended.
  virtual bool RecvMayStillChange() const = 0;

  // For a communicator that is put together from others. The operations that follow are parts of
  // `whole` ("allreduce sum of 4 float32"), which errors tell of instead of them; empty: they are
  // themselves what is called.
  virtual void ReportAs(std::string whole) = 0;
  // This rank takes part in nothing any more. The others' operations end with `why`, where the
  // backend can tell it them, else with kUnavailable.
  virtual void Leave(const Status& why) = 0;

  // Makes the running operation of this rank, and every later one, return kAborted with `cause`'s
  // message. Any thread, at any time; the first cause wins. Does not touch the other ranks: each is
  // aborted by its own process.
  virtual void Abort(const Status& cause) = 0;

 protected:
  // Of arguments that have been checked, while this communicator is usable. What is only the root's
  // is empty on the others.
  virtual Status DoRun(const Operation& operation, Deadline deadline) = 0;
  virtual StatusOr<std::unique_ptr<Communicator>> DoSplit(absl::Span<const Rank> group_ranks,
                                                          uint64_t tag, Deadline deadline,
                                                          const std::atomic<bool>* cancelled) = 0;
};

}  // namespace lockstep::collective
