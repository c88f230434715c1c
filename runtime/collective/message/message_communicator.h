// The operations of a communicator, made of messages: Reductions, Movements and PairMessages, which
// share a RoundRunner.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/collective/communicator.h"
#include "runtime/collective/message/movements.h"
#include "runtime/collective/message/pair_messages.h"
#include "runtime/collective/message/reductions.h"
#include "runtime/collective/message/round_runner.h"
#include "runtime/collective/message/transport.h"

namespace lockstep::collective::message {

class MessageCommunicator final : public Communicator {
 public:
  // `members`: the world ranks of the transport's ranks. `abort_cause` is shared by all that share
  // connections, which can only be aborted together.
  MessageCommunicator(std::unique_ptr<Transport> transport, std::vector<Rank> members,
                      std::shared_ptr<AbortCause> abort_cause = std::make_shared<AbortCause>());

  Rank rank() const override { return rounds_.rank(); }
  int size() const override { return rounds_.size(); }
  absl::Span<const Rank> members() const override { return rounds_.members(); }
  std::string_view backend() const override { return rounds_.transport().name(); }

  // A communicator of these ranks, this one among them, over the same connections: when one of the
  // two fails or is aborted, both have, and this one outlives the other. Costs nothing; two of them
  // have no rank but this one in common.
  std::unique_ptr<Communicator> Among(const std::vector<Rank>& group_ranks);
  // As Split().
  StatusOr<std::unique_ptr<MessageCommunicator>> SplitOff(absl::Span<const Rank> group_ranks,
                                                          uint64_t tag, Deadline deadline,
                                                          const std::atomic<bool>* cancelled);

  Status Usable() override { return rounds_.Usable(); }
  // Only this rank writes to its memory.
  bool RecvMayStillChange() const override { return false; }
  void ReportAs(std::string whole) override { rounds_.ReportAs(std::move(whole)); }
  void Leave(const Status& why) override { (void)rounds_.Fail(why); }
  void Abort(const Status& cause) override { rounds_.Abort(cause); }

 protected:
  Status DoRun(const Operation& operation, Deadline deadline) override {
    return Dispatch(*this, operation, deadline);
  }
  StatusOr<std::unique_ptr<Communicator>> DoSplit(absl::Span<const Rank> group_ranks, uint64_t tag,
                                                  Deadline deadline,
                                                  const std::atomic<bool>* cancelled) override;

 private:
  friend Status Dispatch<MessageCommunicator>(MessageCommunicator&, const Operation&, Deadline);
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
  Status DoSend(ConstBuffer send, Rank to, Deadline deadline) {
    return pairs_.Send(send, to, deadline);
  }
  Status DoRecv(Buffer recv, Rank from, Deadline deadline) {
    return pairs_.Recv(recv, from, deadline);
  }
  Status DoSendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from, Deadline deadline) {
    return pairs_.SendRecv(send, to, recv, from, deadline);
  }
  Status DoBarrier(Deadline deadline) {
    return rounds_.Meet({Call{.kind = Kind::kBarrier}}, Parts(size()), deadline);
  }

  RoundRunner rounds_;
  Reductions reductions_;
  Movements movements_;
  PairMessages pairs_;
};

}  // namespace lockstep::collective::message
