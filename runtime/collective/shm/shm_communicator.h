// The operations of a communicator, on top of Exchange (collectives) and Mailbox (messages).
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/collective/communicator.h"
#include "runtime/collective/dispatch.h"
#include "runtime/collective/shm/exchange.h"
#include "runtime/collective/shm/mailbox.h"
#include "runtime/collective/shm/team.h"

namespace lockstep::collective::shm {

class ShmCommunicator final : public Communicator {
 public:
  explicit ShmCommunicator(std::unique_ptr<Team> team);

  Rank rank() const override { return team_->rank(); }
  int size() const override { return team_->size(); }
  absl::Span<const Rank> members() const override { return team_->members(); }
  std::string_view backend() const override { return "shm"; }

  Status Usable() override { return team_->Usable(); }
  bool RecvMayStillChange() const override { return team_->WasAbandonedWriting(); }
  void ActFor(std::string whole) override { team_->ActFor(std::move(whole)); }
  void Leave(const Status& why) override { (void)team_->Fail(why); }
  void Abort(const Status& cause) override { team_->Abort(cause); }

 protected:
  Status DoRun(const Operation& operation, Deadline deadline) override {
    return Dispatch(*this, operation, deadline);
  }
  StatusOr<std::unique_ptr<Communicator>> DoSplit(absl::Span<const Rank> group_ranks, uint64_t tag,
                                                  Deadline deadline,
                                                  const std::atomic<bool>* cancelled) override;

 private:
  friend Status Dispatch<ShmCommunicator>(ShmCommunicator&, const Operation&, Deadline);
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
  Status DoSend(ConstBuffer send, Rank to, Deadline deadline);
  Status DoRecv(Buffer recv, Rank from, Deadline deadline);
  Status DoSendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from, Deadline deadline);
  Status DoBarrier(Deadline deadline);

  // reductions.cc
  // Combines this rank's share of a window for the `num` ranks from `first` on.
  void CombineWindow(const Exchange& x, const Window& window, DType dtype, ReduceOp op, int first,
                     int num);
  // movements.cc
  // Checks that all pairs of an all-to-all agree. Returns the length of the longest part.
  StatusOr<size_t> ComparePairs() const;

  const std::unique_ptr<Team> team_;
  Mailbox mailbox_;
  // Scratch of one operation, so that none allocates.
  std::vector<const void*> sources_;
  std::vector<void*> destinations_;
};

}  // namespace lockstep::collective::shm
