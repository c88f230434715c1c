// The operations of a communicator, made of messages.
//
// Every operation begins with a round in which each rank tells each other what it calls; small data
// travels with it, so that a small operation is one round. Reductions are computed here, by the
// kernels that all backends share, with the inputs in rank order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/collective/call.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/dispatch.h"
#include "runtime/collective/message/abort_cause.h"
#include "runtime/collective/message/transport.h"
#include "runtime/collective/workspace.h"

namespace lockstep::collective::message {

class MessageCommunicator final : public Communicator {
 public:
  // `members`: the world ranks of the transport's ranks. `abort_cause` is shared by all that share
  // connections, which can only be aborted together.
  MessageCommunicator(std::unique_ptr<Transport> transport, std::vector<Rank> members,
                      std::shared_ptr<AbortCause> abort_cause = std::make_shared<AbortCause>());

  Rank rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }
  absl::Span<const Rank> members() const override { return members_; }
  std::string_view backend() const override { return transport_->name(); }

  // A communicator of these ranks, this one among them, over the same connections: when one of the
  // two fails or is aborted, both have, and this one outlives the other. Costs nothing; two of them
  // have no rank but this one in common.
  std::unique_ptr<Communicator> Among(const std::vector<Rank>& group_ranks);
  // As Split().
  StatusOr<std::unique_ptr<MessageCommunicator>> SplitOff(absl::Span<const Rank> group_ranks,
                                                          uint64_t tag, Deadline deadline,
                                                          const std::atomic<bool>* cancelled);

  Status Usable() override;
  // Nobody writes to this rank's memory but this rank.
  bool RecvMayStillChange() const override { return false; }
  void ActFor(std::string whole) override { whole_ = std::move(whole); }
  void Leave(const Status& why) override { (void)Fail(why); }
  void Abort(const Status& cause) override;

 protected:
  Status DoRun(const Operation& operation, Deadline deadline) override {
    return Dispatch(*this, operation, deadline);
  }
  StatusOr<std::unique_ptr<Communicator>> DoSplit(absl::Span<const Rank> group_ranks, uint64_t tag,
                                                  Deadline deadline,
                                                  const std::atomic<bool>* cancelled) override;

 private:
  friend Status Dispatch<MessageCommunicator>(MessageCommunicator&, const Operation&, Deadline);
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
  Status DoSendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from, Deadline deadline);

  // What all ranks must call alike.
  struct Announcement {
    Call call;
    uint64_t count = 0;  // told in errors
    Counts counts = {};  // compared; of an all-to-all, this rank's own: sent, then received
  };
  // What goes to each rank, and what comes from it; this rank's own entries are not used.
  struct Parts {
    explicit Parts(int size) : send(static_cast<size_t>(size)), recv(static_cast<size_t>(size)) {}
    std::vector<absl::Span<const std::byte>> send;
    std::vector<absl::Span<std::byte>> recv;
  };
  struct Header;
  // One side of a message between two ranks.
  struct PairHeader;
  class PairTransfer;
  template <typename... Transfers>
  Status RunPairs(Deadline deadline, const Transfers&... transfers);  // pairs.cc

  // Leaves with the first failure, which is returned.
  Status Fail(const Status& failure);
  Status Explain(const Outcome& outcome, const std::string& what);

  // meeting.cc
  // Compares the operation with what the others call, and moves the parts. kInvalidArgument on all
  // ranks if they disagree.
  Status Meet(const Announcement& announced, const Parts& parts, Deadline deadline);
  // Moves more parts of the operation that was met for last; those of `also` (may be null) at the
  // same time.
  Status Move(const Parts& parts, Deadline deadline, const Parts* also = nullptr);
  Status Compare(Deadline deadline);
  Status CompareAllToAll(const Announcement& announced, Deadline deadline);
  // Everybody's `numbers`, of which each rank has as many, by rank.
  StatusOr<std::vector<int64_t>> ShareNumbers(absl::Span<const int64_t> numbers, Deadline deadline);
  StatusOr<std::vector<std::string>> ShareTexts(const std::string& text, Deadline deadline);
  Status RunRound(const Parts& parts, size_t above_bytes, Deadline deadline);
  // Adds what is longer than `above_bytes` to outgoing_ and incoming_.
  void AddRound(const Parts& parts, size_t above_bytes);
  // Sends and receives what has been added, and forgets it.
  Status RunAdded(Deadline deadline);
  Header& HeaderTo(int r);
  const Header& HeaderFrom(int r) const;

  // reductions.cc
  // Memory for `size_bytes` of others' inputs, until the next call. Having none is a failure.
  StatusOr<std::byte*> Scratch(size_t size_bytes);
  // Combines the inputs of all ranks, which begin at inputs[r], in rank order.
  void Combine(absl::Span<const void* const> inputs, void* result, size_t count, DType dtype,
               ReduceOp op) const;
  // Combines in slices: every rank one of them, which it then hands to rank `root`, or to all (-1).
  Status ReduceInSlices(const Announcement& announced, ConstBuffer send, Buffer recv, ReduceOp op,
                        Rank root, Deadline deadline);

  const std::unique_ptr<Transport> transport_;
  const std::vector<Rank> members_;
  Status failure_;
  const std::shared_ptr<AbortCause> abort_cause_;

  std::string whole_;    // of which operations are parts
  std::string what_;     // the operation under way, for errors
  uint64_t rounds_ = 0;  // of messages among all ranks, so far: the same on all
  // By rank: messages to it and from it, so far.
  std::vector<uint64_t> sent_;
  std::vector<uint64_t> received_;
  std::vector<std::byte> headers_;  // this rank's to each, then each rank's
  Workspace scratch_;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
};

}  // namespace lockstep::collective::message
