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
class StagingCommunicator final : public DeviceCommunicator {
 public:
  // `resources->allocator` hands out memory that is not registered.
  StagingCommunicator(std::shared_ptr<CommunicatorResources> resources,
                      std::shared_ptr<Communicator> host, std::unique_ptr<DeviceCommunicator> inner)
      : resources_(std::move(resources)), host_(std::move(host)), inner_(std::move(inner)) {}

  Rank rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::Span<const Rank> members() const override { return inner_->members(); }
  std::string_view backend() const override { return inner_->backend(); }
  bool RecvMayStillChange() const override { return inner_->RecvMayStillChange(); }
  void Leave(const Status& why) override { inner_->Leave(why); }
  void Abort(const Status& cause) override { inner_->Abort(cause); }
  void AbortHost(const Status& cause) override { inner_->AbortHost(cause); }
  Status Connect(Deadline deadline) override { return inner_->Connect(deadline); }
  std::shared_ptr<DeviceConnection> connection() const override { return inner_->connection(); }
  Status AgreeOnHostMemory(const std::string& what, Deadline deadline) override {
    return Around(what, {}, {}, deadline,
                  [&](ConstBuffer, Buffer) { return inner_->AgreeOnHostMemory(what, deadline); });
  }
  void UseAgreed(Agreed* agreed) override {
    agreed_ = agreed;
    inner_->UseAgreed(agreed);
  }
  uint64_t PlaceOf(ConstBuffer send, ConstBuffer recv) const override;
  bool HasPlaces() const override { return true; }
  void ReportAs(std::string whole) override {
    whole_ = whole;
    inner_->ReportAs(std::move(whole));
  }

  Status Usable() override { return inner_->Usable(); }
  Status CheckReducible(ReduceOp op, DType dtype) const override {
    return inner_->CheckReducible(op, dtype);
  }

 protected:
  Status DoRun(const Operation& operation, Deadline deadline) override;
  StatusOr<std::unique_ptr<Communicator>> DoSplit(absl::Span<const Rank> group_ranks, uint64_t tag,
                                                  Deadline deadline,
                                                  const std::atomic<bool>* cancelled) override;

 private:
  using Work = std::function<Status(ConstBuffer send, Buffer recv)>;

  // Does `work` with these buffers, or with copies.
  Status Around(const std::string& what, ConstBuffer send, Buffer recv, Deadline deadline,
                const Work& work);
  // With copies of what is registered.
  Status WithCopies(ConstBuffer send, Buffer recv, Deadline deadline, const Work& work);
  // True if all ranks may pass what they have.
  StatusOr<bool> AgreeOnPlaces(const std::string& what, ConstBuffer send, ConstBuffer recv,
                               Deadline deadline);
  bool IsRegistered(ConstBuffer buffer) const;
  // In the communication stream.
  Status Copy(void* to, const void* from, size_t size_bytes);

  const std::shared_ptr<CommunicatorResources> resources_;
  const std::shared_ptr<Communicator> host_;
  const std::unique_ptr<DeviceCommunicator> inner_;
  std::string whole_;
  Agreed* agreed_ = nullptr;  // borrowed
};

}  // namespace lockstep::collective::nccl
