// Threads among which the loops of compiled fragments are divided.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/fragment/abi.h"

namespace lockstep::fragment {

// Gives contexts their parallel(). The ranges that threads get depend on who is free, and results
// do not: a range is computed alike by any thread.
//
// Threads: those that compute are started with the first loop that is worth it, and wait for the
// next one until this ends. One loop at a time is divided; one that comes while another is under
// way is computed by the thread that it comes from.
class LoopThreads {
 public:
  // `threads`: how many compute, the caller's among them. With 1, contexts stay as they are.
  explicit LoopThreads(int threads);
  ~LoopThreads();
  LoopThreads(const LoopThreads&) = delete;
  LoopThreads& operator=(const LoopThreads&) = delete;

  // Sets parallel() of a context whose call ends before this does. Its other functions are called
  // from one thread at a time.
  void ServeLoopsOf(LockstepFragmentContext& context);

 private:
  struct Loop;

  static int32_t Parallel(LockstepFragmentContext* context, LockstepFragmentBody body,
                          const void* frame, int64_t count, int64_t grain);
  int32_t Divide(Loop& loop);
  void StartThreads();
  void Help();

  const int threads_;
  std::mutex busy_;  // held while a loop is divided

  std::mutex mutex_;                 // guards what follows
  std::condition_variable changed_;  // there is a loop, or this ends
  std::condition_variable done_;     // no thread helps any more
  Loop* loop_ = nullptr;             // that is under way, and may want another thread
  uint64_t loops_ = 0;               // that there have been
  int helping_ = 0;                  // threads that compute some of it
  bool stopping_ = false;
  bool started_ = false;  // as many helpers as there could be
  std::vector<std::thread> helpers_;
};

}  // namespace lockstep::fragment
