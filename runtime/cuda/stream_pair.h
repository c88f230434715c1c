// A worker's two streams: one computes, one communicates, and each waits for the other only where
// they use the same memory.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/collective/device.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/stream.h"
#include "runtime/tensor/storage.h"

namespace lockstep::cuda {

// Communication always comes after all that was computed before it was put in. What is computed
// later waits for it if it uses the memory that the communication reads or writes, and else runs
// beside it; in a graph that is captured, too. All waiting is the GPU's: nothing here waits on the
// host.
//
// Threads: safe, but who puts work into a stream does so from one thread.
class StreamPair {
 public:
  // A graph, and the memory that it works in besides that of others.
  class CapturedGraph final : public collective::DeviceGraph {
   public:
    size_t held_bytes() const override { return held_bytes_; }

   private:
    friend StreamPair;
    size_t held_bytes_ = 0;
    std::vector<std::shared_ptr<tensor::Storage>> held_;
    std::unique_ptr<Graph> graph_;  // destroyed before its memory is freed
  };

  static StatusOr<std::unique_ptr<StreamPair>> Create(std::shared_ptr<Gpu> gpu);

  Gpu& gpu() { return *gpu_; }
  // Of the thread that captures: those whose work becomes the graph.
  Stream& compute() { return IsCapturing() ? *capture_->compute : *compute_; }
  Stream& communication() { return IsCapturing() ? *capture_->communication : *communication_; }
  // In whose order memory is handed out, to whatever stream.
  Stream& memory_order() { return *compute_; }

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

  // What the calling thread puts into compute() and communication() between the two is not done,
  // but becomes a graph, in which they wait for each other as else. One thread at a time.
  Status BeginCapture();
  StatusOr<std::unique_ptr<CapturedGraph>> EndCapture();
  // This thread captures.
  bool IsCapturing() const { return capturing_ == std::this_thread::get_id(); }
  // Of the thread that captures: the graph works in this memory, and keeps it.
  void HoldByCapture(std::shared_ptr<tensor::Storage> memory);
  // As communication that uses this memory, and the graph's own.
  Status Launch(CapturedGraph& graph, absl::Span<const collective::MemoryRange> memory);

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

  // What is captured, by one thread.
  struct Capture {
    std::unique_ptr<Stream> compute;
    std::unique_ptr<Stream> communication;
    std::vector<Use> uses;
    std::vector<std::shared_ptr<tensor::Storage>> held;
  };
  // An event of its own: one that was captured cannot be asked for anything.
  Status LetFollowInCapture(Stream& stream, Stream& other);

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
  // Of the thread that captures; null: nothing was captured yet.
  std::unique_ptr<Capture> capture_;
  std::atomic<std::thread::id> capturing_{};  // which one that is; none: nothing is captured
};

}  // namespace lockstep::cuda
