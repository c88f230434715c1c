// What a worker has on its GPU: streams, memory, and what is under way there.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/collective/nccl/memory.h"
#include "runtime/cuda/device_allocator.h"
#include "runtime/cuda/gpu_processor.h"
#include "runtime/cuda/stream_pair.h"
#include "runtime/registers/value.h"
#include "services/worker/gpu/in_flight.h"
#include "services/worker/options.h"

namespace lockstep::worker {

// Threads: the executing one; allocator() as it says itself.
class GpuSide {
 public:
  // `describe_memory_use`: see cuda::DeviceMemoryOptions. The errors of cuda::OpenGpu() and of
  // RegisteredMemory::Allocate().
  static StatusOr<std::unique_ptr<GpuSide>> Open(int index, const WorkerOptions& options,
                                                 std::function<std::string()> describe_memory_use);

  const cuda::GpuFacts& facts() const { return streams_->gpu().facts(); }
  cuda::Gpu& gpu() { return streams_->gpu(); }
  const std::shared_ptr<cuda::StreamPair>& streams() { return streams_; }
  const std::shared_ptr<cuda::DeviceAllocator>& allocator() { return allocator_; }
  cuda::GpuProcessor& processor() { return *processor_; }
  // What of the GPU's memory is registered with NCCL; null: none.
  const std::shared_ptr<collective::nccl::RegisteredMemory>& registered() { return registered_; }
  // Another one of the same GPU, for another thread.
  StatusOr<std::unique_ptr<cuda::GpuProcessor>> NewProcessor();
  InFlight& in_flight() { return in_flight_; }

  // A function of a module is called with these: it may use the memory that they have, and any that
  // their objects know of.
  Status BeforeCall(absl::Span<const registers::Value> arguments);

 private:
  GpuSide(std::shared_ptr<cuda::StreamPair> streams,
          std::shared_ptr<cuda::DeviceAllocator> allocator,
          std::unique_ptr<cuda::GpuProcessor> processor,
          std::shared_ptr<collective::nccl::RegisteredMemory> registered)
      : streams_(std::move(streams)),
        allocator_(std::move(allocator)),
        processor_(std::move(processor)),
        registered_(std::move(registered)),
        in_flight_(streams_->gpu().shared_from_this()) {}

  const std::shared_ptr<cuda::StreamPair> streams_;
  const std::shared_ptr<cuda::DeviceAllocator> allocator_;
  const std::unique_ptr<cuda::GpuProcessor> processor_;
  const std::shared_ptr<collective::nccl::RegisteredMemory> registered_;
  InFlight in_flight_;
};

}  // namespace lockstep::worker
