// Streams and events by the CUDA driver's API.
#pragma once

#include <memory>
#include <utility>

#include "runtime/cuda/driver/driver_gpu.h"

namespace lockstep::cuda {

class DriverEvent final : public Event {
 public:
  DriverEvent(std::shared_ptr<DriverGpu> gpu, CUevent event)
      : gpu_(std::move(gpu)), event_(event) {}
  ~DriverEvent() override;
  StatusOr<bool> IsDone() const override;
  StatusOr<std::chrono::nanoseconds> Since(const collective::DeviceEvent& earlier) const override;

  CUevent handle() const { return event_; }

 private:
  const std::shared_ptr<DriverGpu> gpu_;
  const CUevent event_;
};

class DriverGraph final : public Graph {
 public:
  DriverGraph(std::shared_ptr<DriverGpu> gpu, CUgraph graph)
      : gpu_(std::move(gpu)), graph_(graph) {}
  ~DriverGraph() override;
  Status Instantiate();

  CUgraphExec executable() const { return executable_; }

 private:
  const std::shared_ptr<DriverGpu> gpu_;
  const CUgraph graph_;
  CUgraphExec executable_ = nullptr;
};

class DriverStream final : public Stream {
 public:
  DriverStream(std::shared_ptr<DriverGpu> gpu, CUstream stream)
      : gpu_(std::move(gpu)), stream_(stream) {}
  ~DriverStream() override;

  StreamHandle handle() const override { return stream_; }
  StatusOr<bool> IsIdle() const override;
  Status Record(Event& event) override;
  Status WaitFor(const Event& event) override;
  Status Copy(void* to, const void* from, size_t size_bytes) override;
  Status CopyRows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes,
                  size_t rows) override;
  Status Launch(Kernel kernel, uint64_t threads, const void* parameters) override;
  Status LaunchForEach(Kernel kernel, uint64_t threads,
                       absl::Span<void* const> parameters) override;
  Status BeginCapture() override;
  StatusOr<std::unique_ptr<Graph>> EndCapture() override;
  Status Launch(Graph& graph) override;

 private:
  const std::shared_ptr<DriverGpu> gpu_;
  const CUstream stream_;
};

}  // namespace lockstep::cuda
