// A worker's two streams: one computes, one communicates, and each waits for the other only where
// they use the same memory.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/collective/device.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/stream.h"

namespace lockstep::cuda {

// Communication always comes after all that was computed before it was put in. What is computed
// later waits for it if it uses the memory that the communication reads or writes, and else runs
// beside it. All waiting is the GPU's: nothing here waits on the host.
//
// Threads: safe, but who puts work into a stream does so from one thread.
class StreamPair {
 public:
  static StatusOr<std::unique_ptr<StreamPair>> Create(std::shared_ptr<Gpu> gpu);

  Gpu& gpu() { return *gpu_; }
  Stream& compute() { return *compute_; }
  Stream& communication() { return *communication_; }

  // Around what is put into communication(): it uses this memory.
  Status BeginCommunication();
  Status EndCommunication(absl::Span<const collective::MemoryRange> ranges);

  // What was put in since this was asked last: from the first Begin to the last End.
  collective::CommunicationSpan TakeLastCommunication();
  // When the GPU comes to it, all is done that was put in up to the last End; null: nothing was.
  std::shared_ptr<Event> EndOfLastCommunication();

  // What is put into compute() from now on may use this memory, or any.
  Status BeforeCompute(const collective::MemoryRange& range);
  Status BeforeComputeOnAnything();

  // Of all waits that are over.
  StatusOr<collective::StreamWaits> Waits();

  // The stream in whose order this memory, all of what was allocated as one, may be freed now.
  StatusOr<Stream*> BeforeFree(const collective::MemoryRange& range);

 private:
  // Memory that communication uses, up to an event on its stream.
  struct Use {
    collective::MemoryRange range;
    std::shared_ptr<Event> until;
  };

  // One stream's waits.
  struct StandStills {
    // From when it came to one to when it went on; those that were not seen to be over.
    std::deque<std::pair<std::shared_ptr<Event>, std::shared_ptr<Event>>> pending;
    std::chrono::nanoseconds total{0};  // of the others
    Status Count();
  };

  StreamPair(std::shared_ptr<Gpu> gpu, std::unique_ptr<Stream> compute,
             std::unique_ptr<Stream> communication, std::unique_ptr<Event> computed)
      : gpu_(std::move(gpu)),
        compute_(std::move(compute)),
        communication_(std::move(communication)),
        computed_(std::move(computed)) {}

  // With mutex_ held.
  Status ForgetWhatIsDone();
  // Compute goes on after `use`, and all communication before it.
  Status LetComputeFollow(std::vector<Use>::iterator use);
  StatusOr<std::shared_ptr<Event>> TakeEvent();
  Status LetCommunicationFollow();

  const std::shared_ptr<Gpu> gpu_;
  const std::unique_ptr<Stream> compute_;
  const std::unique_ptr<Stream> communication_;
  std::mutex mutex_;                 // guards what follows
  std::unique_ptr<Event> computed_;  // what communication waits for
  std::vector<Use> uses_;
  StandStills of_compute_;
  StandStills of_communication_;
  collective::CommunicationSpan last_;
  std::shared_ptr<Event> last_end_;
  std::vector<std::shared_ptr<Event>> events_;  // not in use
};

}  // namespace lockstep::cuda
