// The second lane of plans on CPUs: a thread that does what a plan exchanges while the executing
// thread calls functions, and how far both are.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "runtime/plan/steps/program_steps.h"

namespace lockstep::worker {

// Threads: all of it belongs to the executing thread.
class CommunicationLane {
 public:
  CommunicationLane() : thread_([this] { Run(); }) {}
  // Nothing is under way.
  ~CommunicationLane();
  CommunicationLane(const CommunicationLane&) = delete;
  CommunicationLane& operator=(const CommunicationLane&) = delete;

  // Does `work` on the thread. What was done before has been awaited.
  void Begin(std::function<void()> work);
  // Returns when the work is done.
  void Await();

 private:
  enum State : uint32_t { kIdle, kWorks, kEnds };
  void Run();

  std::function<void()> work_;
  std::atomic<uint32_t> state_{kIdle};
  std::thread thread_;
};

// How far the lanes of one execution are, by the numbers of their steps.
//
// Threads: each lane's own, for what is said of its lane.
class LaneProgress {
 public:
  // The lane has done this step, and all of its steps before.
  void Finish(plan::Lane lane, int step);
  // The lane has done all of its steps.
  void FinishAll(plan::Lane lane) { Finish(lane, kAll); }
  // Neither lane begins another step that waits. True: nobody had given up before.
  bool GiveUp();
  bool is_given_up() const { return is_given_up_.load(std::memory_order_acquire); }

  bool IsDone(plan::Lane lane, int step) const {
    return At(lane).load(std::memory_order_acquire) >= step;
  }
  // Returns when the lane has done the step. False: it was given up.
  bool Await(plan::Lane lane, int step) const;
  bool AwaitAll(plan::Lane lane) const { return Await(lane, kAll); }

 private:
  static constexpr int kAll = INT32_MAX;
  std::atomic<int>& At(plan::Lane lane) { return done_[static_cast<size_t>(lane)]; }
  const std::atomic<int>& At(plan::Lane lane) const { return done_[static_cast<size_t>(lane)]; }

  std::array<std::atomic<int>, 2> done_ = {-1, -1};
  std::atomic<bool> is_given_up_{false};
};

}  // namespace lockstep::worker
