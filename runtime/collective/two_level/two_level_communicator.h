// A communicator for nodes: ranks that share memory, and a network between them.
//
// An operation goes inside, across and inside again, so that what crosses is as little as can be:
// a node's ranks combine what they have before it is sent, and what comes is handed out inside. It
// is put together from the communicators of the two levels by their interface alone.
//
// The ranks of a node agree about what they call first, and, after the crossing, about how it went:
// no rank waits for one that has failed, and all return the same failure.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/collective/call.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/dispatch.h"
#include "runtime/collective/message/message_communicator.h"
#include "runtime/collective/two_level/layout.h"
#include "runtime/collective/two_level/parcels.h"
#include "runtime/collective/workspace.h"

namespace lockstep::collective::two_level {

// `network` connects all ranks, `node` those of this rank's node (null: it is alone there), in the
// order of `nodes`, which lists each node's ranks. With one node the result is `node`, with nodes
// of one rank each it is `network`.
std::unique_ptr<Communicator> Combine(std::vector<std::vector<Rank>> nodes,
                                      std::unique_ptr<Communicator> node,
                                      std::unique_ptr<message::MessageCommunicator> network,
                                      size_t one_rail_bytes = kOneRailBytes);

class TwoLevelCommunicator final : public Communicator {
 public:
  TwoLevelCommunicator(Layout layout, std::unique_ptr<Communicator> node,
                       std::unique_ptr<message::MessageCommunicator> network);

  Rank rank() const override { return network_->rank(); }
  int size() const override { return network_->size(); }
  absl::Span<const Rank> members() const override { return network_->members(); }
  std::string_view backend() const override { return name_; }

  Status Usable() override { return failure_; }
  bool RecvMayStillChange() const override {
    return node_ != nullptr && node_->RecvMayStillChange();
  }
  void ActFor(std::string whole) override;
  void Leave(const Status& why) override;
  void Abort(const Status& cause) override;

 protected:
  Status DoRun(const Operation& operation, Deadline deadline) override {
    return Dispatch(*this, operation, deadline);
  }
  StatusOr<std::unique_ptr<Communicator>> DoSplit(absl::Span<const Rank> group_ranks, uint64_t tag,
                                                  Deadline deadline,
                                                  const std::atomic<bool>* cancelled) override;

 private:
  friend Status Dispatch<TwoLevelCommunicator>(TwoLevelCommunicator&, const Operation&, Deadline);
  // reductions.cc
  Status DoAllReduce(ConstBuffer send, Buffer recv, ReduceOp op, Deadline deadline);
  Status DoReduce(ConstBuffer send, Buffer recv, ReduceOp op, Rank root, Deadline deadline);
  Status DoReduceScatter(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                         Deadline deadline);
  // movements.cc
  Status DoBroadcast(ConstBuffer send, Buffer recv, Rank root, Deadline deadline);
  Status DoAllGather(ConstBuffer send, Buffer recv, Counts counts, Deadline deadline);
  Status DoGather(ConstBuffer send, Buffer recv, Counts counts, Rank root, Deadline deadline);
  Status DoScatter(ConstBuffer send, Buffer recv, Counts counts, Rank root, Deadline deadline);
  Status DoAllToAll(ConstBuffer send, Counts send_counts, Buffer recv, Counts recv_counts,
                    Deadline deadline);
  Status DoBarrier(Deadline deadline);
  // pairs.cc
  Status DoSend(ConstBuffer send, Rank to, Deadline deadline);
  Status DoRecv(Buffer recv, Rank from, Deadline deadline);
  // One message inside and one across at the same time take a thread: kResourceExhausted if none
  // can be had. When one of them fails the other is aborted; what was aborted cannot be split any
  // more.
  Status DoSendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from, Deadline deadline);

  // An operation under way. Its three stages have deadlines one after the other, so that those who
  // notice first what is missing can say so to those who only wait for them.
  struct Stages {
    Deadline inside;
    Deadline across;
    Deadline after;
  };

  // Begins an operation: OK if all ranks of the node call the same.
  StatusOr<Stages> Begin(const Call& call, uint64_t count, Counts counts, Deadline deadline);
  // Ends the crossing, of which this rank's part came to `crossed`: OK if it went well for all
  // ranks of the node.
  Status EndCrossing(const Status& crossed, const Stages& stages);
  // The first failure, which is returned, is that of all later operations, and told to the others.
  Status Fail(const Status& failure);
  // A stage inside; a failure is final.
  Status Inside(const Status& status) { return status.ok() ? status : Fail(status); }

  // The crossing on this rank's rail; OK without doing anything if it has none, or `used` is false.
  template <typename Cross>
  Status OnRail(bool used, Cross cross) {
    return rail_ != nullptr && used ? cross(*rail_) : OkStatus();
  }

  // reductions.cc
  // Combines `send` over the node; every rank gets its slice of the result. In place as in
  // ReduceScatter().
  Status ReduceInside(ConstBuffer send, Buffer mine, Counts counts, ReduceOp op, Deadline deadline);
  // The three reductions, of arguments that have been checked, in dtypes wide enough for what is
  // formed on the way.
  Status AllReduceStages(ConstBuffer send, Buffer recv, ReduceOp op, const Stages& stages);
  Status ReduceStages(ConstBuffer send, Buffer recv, ReduceOp op, Rank root, const Stages& stages);
  Status ReduceScatterStages(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                             const Stages& stages);
  // movements.cc
  // OK if all nodes have come to the same operation.
  Status MeetAcross(const Stages& stages);
  // All data of this node's ranks, one after the other, on every rank of the node.
  StatusOr<ConstBuffer> GatherInside(ConstBuffer send, Counts counts, Deadline deadline);
  // Hands each rank of the node its part of the node's data, of which `mine` has come by this
  // rank's rail.
  Status HandOut(ConstBuffer mine, const Parcels& parcels, Buffer recv, Deadline deadline);
  // Memory of this operation. Having none is a failure.
  enum Area { kWideIn, kWideOut, kSegment, kPacked, kSlice, kPiece, kAreas };
  StatusOr<Buffer> Scratch(Area area, size_t count, DType dtype);

  const Layout layout_;
  const std::unique_ptr<Communicator> node_;
  const std::unique_ptr<message::MessageCommunicator> network_;
  const std::unique_ptr<Communicator> rail_;  // over network_'s connections; null: it has none
  const std::string name_;
  std::string whole_;
  std::string what_;  // the operation under way
  Status failure_;
  Workspace scratch_[kAreas];
};

}  // namespace lockstep::collective::two_level
