// Answers probes: what the executing thread does, with its stack, and what its registers hold.
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
#include "runtime/control/channel.h"
#include "schemas/membership.capnp.h"
#include "services/worker/report/register_query_queue.h"

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

  // `executing_thread` writes `activity` and answers `register_queries`; all outlive this
  // object. Without it nothing is told of registers. `send` gets a LivenessMessage.
  Reporter(Identity identity, const control::ActivityPage& activity, pthread_t executing_thread,
           RegisterQueryQueue* register_queries, std::function<void(control::Frame)> send);
  ~Reporter();

  void Answer(uint64_t probe);
  void Answer(wire::AskRegisters::Reader question);

 private:
  struct RegisterQuestion {
    uint64_t probe = 0;
    RegisterQueryQueue::Question question;
  };

  void Run();
  void Report(const std::vector<uint64_t>& probes);
  void TellRegisters(const std::vector<RegisterQuestion>& questions);

  const Identity identity_;
  const control::ActivityPage& activity_;
  const pthread_t executing_thread_;
  RegisterQueryQueue* const register_queries_;
  const std::function<void(control::Frame)> send_;

  std::mutex mutex_;
  std::condition_variable wanted_;
  std::vector<uint64_t> probes_;
  std::vector<RegisterQuestion> questions_;
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace lockstep::worker
