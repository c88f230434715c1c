// Keeps what NCCL asks of registered memory: that all ranks of a collective pass it, at the same
// place in it, or none does.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/collective/nccl/nccl_communicator.h"

namespace lockstep::collective::nccl {

// The ranks tell each other where their buffers lie, by their CPUs. If that is not the same for
// all, those in registered memory are copied to other memory, and back. Messages between two ranks
// always are.
class StagingCommunicator final : public GpuCommunicator {
 public:
  // `device->allocator` hands out memory that is not registered.
  StagingCommunicator(std::shared_ptr<Device> device, std::shared_ptr<Communicator> host,
                      std::unique_ptr<GpuCommunicator> inner)
      : device_(std::move(device)), host_(std::move(host)), inner_(std::move(inner)) {}

  Rank rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::Span<const Rank> members() const override { return inner_->members(); }
  std::string_view backend() const override { return inner_->backend(); }
  bool RecvMayStillChange() const override { return inner_->RecvMayStillChange(); }
  void Leave(const Status& why) override { inner_->Leave(why); }
  void Abort(const Status& cause) override { inner_->Abort(cause); }
  void AbortHost(const Status& cause) override { inner_->AbortHost(cause); }
  std::shared_ptr<Connection> connection() const override { return inner_->connection(); }
  Status Barrier(Deadline deadline) override {
    return Around("a barrier", {}, {}, deadline,
                  [&](ConstBuffer, Buffer) { return inner_->Barrier(deadline); });
  }
  Status AgreeOnHostMemory(const std::string& what, Deadline deadline) override {
    return Around(what.c_str(), {}, {}, deadline,
                  [&](ConstBuffer, Buffer) { return inner_->AgreeOnHostMemory(what, deadline); });
  }
  void ActFor(std::string whole) override {
    whole_ = whole;
    inner_->ActFor(std::move(whole));
  }

  Status AllReduce(ConstBuffer send, Buffer recv, ReduceOp op, Deadline deadline) override;
  Status Reduce(ConstBuffer send, Buffer recv, ReduceOp op, Rank root, Deadline deadline) override;
  Status ReduceScatter(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                       Deadline deadline) override;
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

 protected:
  StatusOr<std::unique_ptr<Communicator>> DoSplit(absl::Span<const Rank> group_ranks, uint64_t tag,
                                                  Deadline deadline,
                                                  const std::atomic<bool>* cancelled) override;

 private:
  using Operation = std::function<Status(ConstBuffer send, Buffer recv)>;

  // Does `operation` with these buffers, or with copies. One that this rank has no part in is
  // empty.
  Status Around(const char* what, ConstBuffer send, Buffer recv, Deadline deadline,
                const Operation& operation);
  // With copies of what is registered.
  Status WithCopies(ConstBuffer send, Buffer recv, const Operation& operation);
  // True if all ranks may pass what they have.
  StatusOr<bool> AgreeOnPlaces(const char* what, ConstBuffer send, ConstBuffer recv,
                               Deadline deadline);
  bool IsRegistered(ConstBuffer buffer) const;
  // In the communication stream.
  Status Copy(void* to, const void* from, size_t size_bytes);

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<Communicator> host_;
  const std::unique_ptr<GpuCommunicator> inner_;
  std::string whole_;
};

}  // namespace lockstep::collective::nccl
