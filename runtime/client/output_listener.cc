#include "runtime/client/output_listener.h"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace lockstep::client {
namespace {

// How long a call waits for a callback.
constexpr std::chrono::seconds kPatience{1};
// While others read the socket, this thread looks now and then whether they still do: ever more
// seldom, for they may wait for long.
constexpr int kFirstLookMillis = 20;
constexpr int kLongestLookMillis = 500;
constexpr int kForEver = -1;
// The controller is told now and then, well before its window is full.
constexpr uint64_t kTellEvery = uint64_t{256} << 10;

}  // namespace

OutputListener::OutputListener(OutputCallback callback, Source source)
    : callback_(std::move(callback)), source_(std::move(source)) {
  thread_ = std::thread([this] { Run(); });
}

void OutputListener::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_up_.Signal();
  if (thread_.joinable()) thread_.join();
}

void OutputListener::Push(std::vector<WorkerOutput> lines, uint64_t position) {
  std::lock_guard lock(mutex_);
  waiting_.push_back({std::move(lines), position});
  ++pushed_;
  wake_up_.Signal();
}

void OutputListener::AwaitHandedOver() {
  if (std::this_thread::get_id() == thread_id_) return;
  std::unique_lock lock(mutex_);
  const uint64_t wanted = pushed_;
  if (is_slow_ || handed_over_ >= wanted) return;
  is_slow_ =
      !handed_over_changed_.wait_for(lock, kPatience, [&] { return handed_over_ >= wanted; });
}

void OutputListener::Run() {
  thread_id_ = std::this_thread::get_id();
  int next_look = kFirstLookMillis;
  while (true) {
    std::vector<Batch> batches;
    bool stopping = false;
    {
      std::lock_guard lock(mutex_);
      wake_up_.Clear();
      batches.swap(waiting_);
      stopping = stopping_;
      if (batches.empty()) is_slow_ = false;
    }
    if (!batches.empty()) {
      HandOver(batches);
      continue;
    }
    if (stopping) return;
    const bool alone = source_.look();
    pollfd set[] = {{wake_up_.fd(), POLLIN, 0}, {source_.wait_fd, POLLIN, 0}};
    if (alone) source_.begin_sleep();
    poll(set, alone ? 2 : 1, alone ? kForEver : next_look);
    if (alone) source_.end_sleep();
    next_look = alone ? kFirstLookMillis : std::min(2 * next_look, kLongestLookMillis);
  }
}

void OutputListener::HandOver(const std::vector<Batch>& batches) {
  for (const Batch& batch : batches) {
    for (const WorkerOutput& line : batch.lines) callback_(line);
    if (batch.position - told_position_ >= kTellEvery) {
      told_position_ = batch.position;
      source_.taken(batch.position);
    }
    std::lock_guard lock(mutex_);
    ++handed_over_;
    handed_over_changed_.notify_all();
  }
}

}  // namespace lockstep::client
