// A communicator for nodes: ranks that share memory, and a network between them.
//
// An operation goes inside, across and inside again (StageRunner), so that what crosses is as
// little as can be: a node's ranks combine what they have before it is sent, and what comes is
// handed out inside. It is put together from the communicators of the two levels by their interface
// alone. Messages between two ranks go inside of their node, or over the network.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/collective/communicator.h"
#include "runtime/collective/message/message_communicator.h"
#include "runtime/collective/two_level/layout.h"
#include "runtime/collective/two_level/movements.h"
#include "runtime/collective/two_level/reductions.h"
#include "runtime/collective/two_level/stage_runner.h"

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

  Rank rank() const override { return runner_.rank(); }
  int size() const override { return runner_.size(); }
  absl::Span<const Rank> members() const override { return runner_.members(); }
  std::string_view backend() const override { return name_; }

  Status Usable() override { return runner_.failure(); }
  bool RecvMayStillChange() const override {
    return runner_.node() != nullptr && runner_.node()->RecvMayStillChange();
  }
  void ReportAs(std::string whole) override { runner_.ReportAs(std::move(whole)); }
  void Leave(const Status& why) override { (void)runner_.Fail(why); }
  void Abort(const Status& cause) override { runner_.Abort(cause); }

 protected:
  Status DoRun(const Operation& operation, Deadline deadline) override {
    return Dispatch(*this, operation, deadline);
  }
  StatusOr<std::unique_ptr<Communicator>> DoSplit(absl::Span<const Rank> group_ranks, uint64_t tag,
                                                  Deadline deadline,
                                                  const std::atomic<bool>* cancelled) override;

 private:
  friend Status Dispatch<TwoLevelCommunicator>(TwoLevelCommunicator&, const Operation&, Deadline);
  Status DoAllReduce(ConstBuffer send, Buffer recv, ReduceOp op, Deadline deadline) {
    return reductions_.AllReduce(send, recv, op, deadline);
  }
  Status DoReduce(ConstBuffer send, Buffer recv, ReduceOp op, Rank root, Deadline deadline) {
    return reductions_.Reduce(send, recv, op, root, deadline);
  }
  Status DoReduceScatter(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                         Deadline deadline) {
    return reductions_.ReduceScatter(send, recv, counts, op, deadline);
  }
  Status DoBroadcast(ConstBuffer send, Buffer recv, Rank root, Deadline deadline) {
    return movements_.Broadcast(send, recv, root, deadline);
  }
  Status DoAllGather(ConstBuffer send, Buffer recv, Counts counts, Deadline deadline) {
    return movements_.AllGather(send, recv, counts, deadline);
  }
  Status DoGather(ConstBuffer send, Buffer recv, Counts counts, Rank root, Deadline deadline) {
    return movements_.Gather(send, recv, counts, root, deadline);
  }
  Status DoScatter(ConstBuffer send, Buffer recv, Counts counts, Rank root, Deadline deadline) {
    return movements_.Scatter(send, recv, counts, root, deadline);
  }
  Status DoAllToAll(ConstBuffer send, Counts send_counts, Buffer recv, Counts recv_counts,
                    Deadline deadline) {
    return movements_.AllToAll(send, send_counts, recv, recv_counts, deadline);
  }
  Status DoBarrier(Deadline deadline) { return movements_.Barrier(deadline); }
  Status DoSend(ConstBuffer send, Rank to, Deadline deadline);
  Status DoRecv(Buffer recv, Rank from, Deadline deadline);
  // One message inside and one across at the same time take a thread: kResourceExhausted if none
  // can be had. When one of them fails the other is aborted; what was aborted cannot be split any
  // more.
  Status DoSendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from, Deadline deadline);

  const std::string name_;
  StageRunner runner_;
  Reductions reductions_;
  Movements movements_;
};

}  // namespace lockstep::collective::two_level
