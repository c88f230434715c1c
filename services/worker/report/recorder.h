// What a worker counts while it executes: commands, collectives, errors.
//
// The numbers are made by the executing thread and read by the threads that serve them. There is a
// place for each kind, operation, backend and code, so that nothing is looked up by name. Times of
// commands are samples: reading the clock costs as much as some commands do.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/registers/register_file.h"
#include "schemas/control.capnp.h"
#include "services/metrics/counters.h"
#include "services/metrics/families.h"
#include "services/worker/join/envelope.h"
#include "services/worker/report/arrival_log.h"
#include "services/worker/report/command_spans.h"
#include "services/worker/report/fragment_counts.h"
#include "services/worker/report/plan_cache_counts.h"
#include "services/worker/report/transfer_counts.h"

namespace lockstep::worker {

// Threads: what is const is safe from any, arrivals() as it says itself; the rest belongs to the
// executing thread.
class Recorder {
 public:
  using Clock = std::chrono::steady_clock;

  // Times are taken of the first commands of a batch, of one in kTimedEvery of the others, and of
  // all that no program issues by the million.
  static constexpr uint32_t kTimedFirst = 4;
  static constexpr uint32_t kTimedEvery = 64;

  // `taken`: when the batch was taken from the socket.
  void BeginBatch(const BatchTimes& times, Clock::time_point taken) {
    times_ = times;
    taken_ = now_ = taken;
    now_is_fresh_ = true;
    position_ = 0;
    if (spans_.is_on()) [[unlikely]]
      spans_.EndWait(taken);
  }
  // Around the execution of each command.
  void Begin(wire::Command::Which which) {
    kind_ = KindOf(which);
    commands_[kind_].Add();
    const uint32_t position = position_++;
    is_timed_ = position < kTimedFirst || position % kTimedEvery == 0 || (kRare >> kind_ & 1) != 0;
    if (is_timed_) StartTiming(position == 0);
  }
  void End() {
    if (spans_.is_open()) [[unlikely]]
      spans_.End();
    if (is_timed_) return FinishTiming();
    now_is_fresh_ = false;
  }
  // The command that is executed is a collective, and went well.
  CollectiveCost AddCollective(SessionId session, Generation generation, uint64_t command,
                               wire::CollectiveKind kind, const CollectiveFacts& facts);
  // A collective is over which took this long: a step of a plan, or one that was executed before,
  // on the GPU.
  CollectiveCost AddTimedCollective(wire::CollectiveKind kind, const CollectiveFacts& facts,
                                    std::chrono::nanoseconds took) {
    return {collectives_.Add(kind, facts, took), took};
  }
  // The executing thread has waited this long for the GPU.
  void AddGpuWait(std::chrono::nanoseconds waited) {
    gpu_wait_nanos_.Add(static_cast<uint64_t>(waited.count()));
  }
  std::chrono::nanoseconds GpuWait() const {
    return std::chrono::nanoseconds(gpu_wait_nanos_.value());
  }
  // A command has failed here; to be said before it is told to others.
  void AddError(SessionId session, uint64_t command, StatusCode code);

  // `command` of `session`, which has begun, is recorded for a timeline if a client asks for one.
  void Trace(SessionId session, uint64_t command) {
    if (spans_.is_on()) [[unlikely]]
      spans_.Begin(session, command, NameOfKind());
  }
  CommandSpans& spans() { return spans_; }

  // What the cache has done, and holds, after every use of it.
  void SetPlanCache(PlanCacheCounts::Cache cache, const plan::CacheUse& use) {
    plan_caches_.Set(cache, use);
  }

  // So many bytes came here because an argument of a fragment did not lie as it was wanted.
  void AddFragmentInput(int64_t bytes) { fragments_.AddInput(static_cast<uint64_t>(bytes)); }
  // What was done to have fragments compiled, after every one.
  void SetFragments(const ObjectCacheUse& use) { fragments_.Set(use); }

  // What registers hold, after every batch.
  void SetRegisters(const registers::RegisterTotals& totals);

  ArrivalLog& arrivals() { return arrivals_; }
  const registers::RegisterTotals& registers() const { return registers_; }
  const CollectiveCounts& collectives() const { return collectives_; }

  // Tells of commands, errors and caches.
  void Tell(metrics::Families& families) const;

 private:
  // Commands by number; the last stands for any that is not known here.
  static constexpr size_t kKinds = 25;
  static constexpr size_t kCodes = 17;
  enum Stage : size_t { kBatching, kOrdering, kTransit, kWaiting, kExecuting, kStages };

  // Those that no program issues by the million.
  static constexpr uint32_t kRare =
      ~(1u << wire::Command::CALL | 1u << wire::Command::EMPTY | 1u << wire::Command::RELEASE |
        1u << wire::Command::GET_FUNCTION | 1u << wire::Command::RUN_FRAGMENT);

  static size_t KindOf(wire::Command::Which which) {
    const auto kind = static_cast<size_t>(which);
    return kind < kKinds - 1 ? kind : kKinds - 1;
  }

  const char* NameOfKind() const;
  void StartTiming(bool is_first);
  void FinishTiming();
  void Observe(Stage stage, std::chrono::nanoseconds duration) {
    if (duration.count() >= 0) stages_[kind_][stage].Observe(duration);
  }

  // Of the batch and the command that are executed.
  BatchTimes times_;
  Clock::time_point taken_;
  Clock::time_point started_;
  Clock::time_point now_;
  bool now_is_fresh_ = false;  // nothing was executed since
  bool is_timed_ = false;
  uint32_t position_ = 0;
  size_t kind_ = 0;

  registers::RegisterTotals registers_;
  std::array<metrics::Counter, kKinds> commands_;
  std::array<std::array<metrics::DurationHistogram, kStages>, kKinds> stages_;
  std::array<metrics::Counter, kCodes> errors_;
  CollectiveCounts collectives_;
  PlanCacheCounts plan_caches_;
  FragmentCounts fragments_;
  metrics::Counter gpu_wait_nanos_;
  ArrivalLog arrivals_;
  CommandSpans spans_;
};

}  // namespace lockstep::worker
