// An accelerator without hardware, of no library's kind: its work is done when a test says so.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/collective/device.h"
#include "runtime/tensor/storage.h"

namespace lockstep::worker {

class FakeEvent final : public collective::DeviceEvent {
 public:
  StatusOr<bool> IsDone() const override {
    if (when_asked) when_asked();
    if (!error.ok()) return error;
    return is_done;
  }
  StatusOr<std::chrono::nanoseconds> Since(const collective::DeviceEvent&) const override {
    return std::chrono::microseconds(7);
  }

  bool is_done = false;
  Status error;
  std::function<void()> when_asked = {};  // may be empty
};

// Memory that can be read all the same.
class FakeDeviceAllocator final : public tensor::Allocator {
 public:
  StatusOr<std::shared_ptr<tensor::Storage>> Allocate(size_t size_bytes) override {
    LOCKSTEP_ASSIGN_OR_RETURN(auto memory, heap_->Allocate(size_bytes));
    return std::shared_ptr<tensor::Storage>(std::make_shared<OnDevice>(std::move(memory)));
  }
  tensor::AllocatorStats Stats() const override { return heap_->Stats(); }

 private:
  class OnDevice final : public tensor::Storage {
   public:
    explicit OnDevice(std::shared_ptr<tensor::Storage> memory)
        : Storage(memory->data(), memory->size_bytes(), Device{DeviceType::kCuda, 0}),
          memory_(std::move(memory)) {}

   private:
    const std::shared_ptr<tensor::Storage> memory_;
  };
  const std::shared_ptr<tensor::Allocator> heap_ = tensor::NewHeapAllocator();
};

// Does nothing, but counts as used when it is asked to fill a tensor.
class FakeDeviceProcessor final : public collective::DeviceProcessor {
 public:
  Device device() const override { return {DeviceType::kCuda, 0}; }
  tensor::Allocator& allocator() override { return allocator_; }
  Status Fill(Buffer, uint64_t) override {
    was_used_ = true;
    return OkStatus();
  }
  Status Arange(const tensor::Tensor&, const tensor::Steps&) override { return OkStatus(); }
  Status Cast(const tensor::Tensor&, const tensor::Tensor&) override { return OkStatus(); }
  Status CopyRows(void*, size_t, const void*, size_t, size_t, size_t) override {
    return OkStatus();
  }
  Status Launch(const collective::KernelLaunch& launch) override {
    was_used_ = true;
    if (on_launch) on_launch(launch);
    return OkStatus();
  }
  Status FromHost(void*, const void*, size_t) override { return OkStatus(); }
  Status ToHost(void*, const void*, size_t) override { return OkStatus(); }
  void SetWaitLimit(collective::WaitLimit limit) override { this->limit = std::move(limit); }
  bool TakeWasUsed() override { return std::exchange(was_used_, false); }

  collective::WaitLimit limit{Deadline::After({})};
  std::function<void(const collective::KernelLaunch&)> on_launch = {};  // may be empty

 private:
  FakeDeviceAllocator allocator_;
  bool was_used_ = false;
};

class FakeConnection final : public collective::DeviceConnection {
 public:
  Status Health() override { return health; }
  void Abort(const Status& cause) override { aborted = cause; }
  bool is_aborted() const override { return !aborted.ok(); }

  Status health;
  Status aborted;  // OK: it is not
};

class FakeAccelerator final : public collective::Accelerator {
 public:
  const collective::DeviceFacts& facts() const override { return facts_; }
  Status Bind() override { return OkStatus(); }
  Status Loss() const override { return loss; }
  FakeDeviceProcessor& processor() override { return processor_; }
  StatusOr<std::unique_ptr<collective::DeviceProcessor>> NewProcessor() override {
    return std::unique_ptr<collective::DeviceProcessor>(std::make_unique<FakeDeviceProcessor>());
  }
  std::unique_ptr<collective::DeviceMonitor> NewMonitor() override { return nullptr; }
  StatusOr<std::unique_ptr<collective::DeviceKernel>> LoadKernel(absl::Span<const std::byte>,
                                                                 const std::string&) override {
    return std::make_unique<collective::DeviceKernel>();
  }
  void* compute_stream() const override { return nullptr; }
  Status BeforeCompute(const collective::MemoryRange& memory) override {
    before_compute.push_back(memory);
    return OkStatus();
  }
  Status BeforeComputeOnAnything() override { return OkStatus(); }
  Status MarkCompute(std::shared_ptr<collective::DeviceEvent>* event) override {
    if (*event == nullptr) *event = std::make_shared<FakeEvent>();
    auto& fake = static_cast<FakeEvent&>(**event);
    fake.is_done = false;
    fake.when_asked = nullptr;
    marks.push_back(&fake);
    return OkStatus();
  }
  Status BeginCapture() override { return Unimplemented("a fake captures nothing"); }
  StatusOr<std::unique_ptr<collective::DeviceGraph>> EndCapture() override {
    return Unimplemented("a fake captures nothing");
  }
  Status Launch(collective::DeviceGraph&, absl::Span<const collective::MemoryRange>) override {
    return Unimplemented("a fake captures nothing");
  }
  collective::CommunicationSpan TakeLastCommunication() override {
    return std::exchange(last_communication, {});
  }
  void AbortAfter(std::shared_ptr<collective::DeviceConnection> connection,
                  std::shared_ptr<collective::DeviceEvent> before, Status) override {
    aborted_after.emplace_back(std::move(connection), std::move(before));
  }

  Status loss;
  std::vector<collective::MemoryRange> before_compute;
  std::vector<FakeEvent*> marks;  // of the compute stream, in order
  collective::CommunicationSpan last_communication;
  std::vector<std::pair<std::shared_ptr<collective::DeviceConnection>,
                        std::shared_ptr<collective::DeviceEvent>>>
      aborted_after;

 private:
  const collective::DeviceFacts facts_ = {};
  FakeDeviceProcessor processor_;
};

}  // namespace lockstep::worker
