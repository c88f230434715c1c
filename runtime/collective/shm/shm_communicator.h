// The operations of a communicator, on top of Exchange (collectives) and Mailbox (messages).
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/collective/communicator.h"
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

  // reductions.cc
  Status AllReduce(ConstBuffer send, Buffer recv, ReduceOp op, Deadline deadline) override;
  Status Reduce(ConstBuffer send, Buffer recv, ReduceOp op, Rank root, Deadline deadline) override;
  Status ReduceScatter(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                       Deadline deadline) override;
  // movements.cc
  Status Broadcast(ConstBuffer send, Buffer recv, Rank root, Deadline deadline) override;
  Status AllGather(ConstBuffer send, Buffer recv, Counts counts, Deadline deadline) override;
  Status Gather(ConstBuffer send, Buffer recv, Counts counts, Rank root,
                Deadline deadline) override;
  Status Scatter(ConstBuffer send, Buffer recv, Counts counts, Rank root,
                 Deadline deadline) override;
  Status AllToAll(ConstBuffer send, Counts send_counts, Buffer recv, Counts recv_counts,
                  Deadline deadline) override;

  Status Send(ConstBuffer send, Rank to, Deadline deadline) override;
  Status Recv(Buffer recv, Rank from, Deadline deadline) override;
  Status SendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from, Deadline deadline) override;
  Status Barrier(Deadline deadline) override;
  bool RecvMayStillChange() const override { return team_->WasAbandonedWriting(); }
  void ActFor(std::string whole) override { team_->ActFor(std::move(whole)); }
  void Leave(const Status& why) override { (void)team_->Fail(why); }
  void Abort(const Status& cause) override { team_->Abort(cause); }

 protected:
  StatusOr<std::unique_ptr<Communicator>> DoSplit(absl::Span<const Rank> group_ranks, uint64_t tag,
                                                  Deadline deadline,
                                                  const std::atomic<bool>* cancelled) override;

 private:
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
