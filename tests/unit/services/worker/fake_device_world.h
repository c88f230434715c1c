// Collectives among accelerators that do nothing, and end when a test says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/device.h"
#include "runtime/collective/device_communicator.h"
#include "runtime/collective/operation.h"
#include "tests/unit/services/worker/fake_accelerator.h"

namespace lockstep::worker {

// Its operations go on on `gpu`.
class FakeDeviceCommunicator final : public collective::DeviceCommunicator {
 public:
  FakeDeviceCommunicator(FakeAccelerator& gpu, std::shared_ptr<collective::Communicator> host,
                         std::shared_ptr<FakeConnection> connection)
      : gpu_(gpu), host_(std::move(host)), connection_(std::move(connection)) {}

  Rank rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  absl::Span<const Rank> members() const override { return host_->members(); }
  std::string_view backend() const override { return "fake GPUs"; }
  bool RecvMayStillChange() const override { return false; }
  void ReportAs(std::string) override {}
  void Leave(const Status&) override {}
  void Abort(const Status& cause) override { connection_->Abort(cause); }
  Status Connect(Deadline) override { return OkStatus(); }
  std::shared_ptr<collective::DeviceConnection> connection() const override { return connection_; }
  void AbortHost(const Status&) override {}
  void UseAgreed(collective::Agreed*) override {}
  uint64_t PlaceOf(ConstBuffer, ConstBuffer) const override { return 0; }
  bool HasPlaces() const override { return false; }
  Status AgreeOnHostMemory(const std::string&, Deadline) override { return OkStatus(); }

 protected:
  Status DoRun(const collective::Operation&, Deadline) override {
    gpu_.last_communication = {std::make_shared<FakeEvent>(), std::make_shared<FakeEvent>()};
    return OkStatus();
  }
  StatusOr<std::unique_ptr<collective::Communicator>> DoSplit(absl::Span<const Rank>, uint64_t,
                                                              Deadline,
                                                              const std::atomic<bool>*) override {
    return Unimplemented("a fake is not split");
  }

 private:
  FakeAccelerator& gpu_;
  const std::shared_ptr<collective::Communicator> host_;
  const std::shared_ptr<FakeConnection> connection_;
};

// All ranks have an accelerator.
class FakeDeviceWorld final : public collective::DeviceWorld {
 public:
  explicit FakeDeviceWorld(FakeAccelerator& gpu) : gpu_(gpu) {}

  std::unique_ptr<collective::DeviceCommunicator> Over(
      std::shared_ptr<collective::Communicator> host) override {
    return std::make_unique<FakeDeviceCommunicator>(gpu_, std::move(host), connection);
  }
  void Abandon() override {}
  std::optional<Rank> WithoutDevice(absl::Span<const Rank>) const override { return std::nullopt; }

  // Of all communicators.
  const std::shared_ptr<FakeConnection> connection = std::make_shared<FakeConnection>();

 private:
  FakeAccelerator& gpu_;
};

}  // namespace lockstep::worker
