// Fake streams and events.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace lockstep::fake_cuda {

// Threads: safe.
class Event {
 public:
  // The number of this recording.
  uint64_t Record();
  void Happen(uint64_t recording);
  // Waits until that recording, or a later one, has happened.
  void Await(uint64_t recording);

  uint64_t recorded() const;
  // As CUDA: true if it was never recorded.
  bool IsDone() const;
  std::chrono::steady_clock::time_point when() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t recorded_ = 0;
  uint64_t happened_ = 0;
  std::chrono::steady_clock::time_point when_;
};

// Does what it is given, in order, on a thread of its own.
//
// Threads: safe.
class Stream {
 public:
  Stream();
  // As CUDA: what it was given is done first.
  ~Stream();
  void Add(std::function<void()> work);
  bool IsIdle();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool is_busy_ = false;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace lockstep::fake_cuda
