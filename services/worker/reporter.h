// Answers probes: what the executing thread does, with its stack.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/control/activity_page.h"
#include "runtime/control/frame.h"

namespace lockstep::worker {

// A thread of its own, so that nothing that sampling may wait for holds up a heartbeat or an abort.
// Probes that come meanwhile are answered together, by one sample.
//
// Threads: safe. `send` is called on the reporter's thread.
class Reporter {
 public:
  struct Identity {
    Rank rank = 0;
    Epoch controller;
    uint64_t watch = 0;
  };

  // `executing_thread` writes `activity`; both outlive this object. `send` gets a LivenessMessage.
  Reporter(Identity identity, const control::ActivityPage& activity, pthread_t executing_thread,
           std::function<void(control::Frame)> send);
  ~Reporter();

  void Answer(uint64_t probe);

 private:
  void Run();

  const Identity identity_;
  const control::ActivityPage& activity_;
  const pthread_t executing_thread_;
  const std::function<void(control::Frame)> send_;

  std::mutex mutex_;
  std::condition_variable wanted_;
  std::vector<uint64_t> probes_;
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace lockstep::worker
