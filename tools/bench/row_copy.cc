// From the client's memory into worker-0's tensor, beside the best plain copy into shared memory.
//
// Both read the same source, which is rewritten before each copy, and write to shared memory that
// was written to before: on fresh pages the kernel's zeroing would be all that is measured.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/quantity.h"
#include "runtime/base/shared_segment.h"
#include "tools/bench/clusters.h"
#include "tools/bench/plain_copy.h"
#include "tools/bench/report.h"
#include "tools/bench/rows.h"
#include "tools/bench/settings.h"

namespace lockstep::bench {
namespace {

constexpr double kSmallCopyGoal = 0.8;
constexpr double kCopyGoal = 0.95;
constexpr size_t kCopyGoalFrom = 4 * kMiB;
constexpr double kSmallGoalNanos = 300;
constexpr size_t kApart = 512;  // elements, half a page
// What a copy right after a call may take beside the copying.
constexpr double kSyncsAfterCall = 1.5;
constexpr std::chrono::milliseconds kSyncTime{50};
// Copies of one size, one round and one way: as many as move this much.
constexpr size_t kCopyBytes = 256 * kMiB;

std::vector<size_t> CopySizes(bool quick) {
  if (quick) return {kMiB, 16 * kMiB, 64 * kMiB};
  return {kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB, 512 * kMiB};
}

// The median time of `copy` in nanoseconds, over turns of so many.
template <typename Copy>
StatusOr<double> NanosEach(Copy&& copy) {
  using Clock = std::chrono::steady_clock;
  constexpr int kTurns = 100;
  constexpr int kCopies = 200;
  std::vector<double> nanos;
  for (int turn = 0; turn < kTurns; ++turn) {
    const auto start = Clock::now();
    for (int i = 0; i < kCopies; ++i) LOCKSTEP_RETURN_IF_ERROR(copy());
    nanos.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count() /
                    kCopies);
  }
  return Median(std::move(nanos));
}

// The median rate of `copy` in GB/s.
template <typename Copy>
StatusOr<double> Rate(std::vector<float>& source, Copy&& copy) {
  using Clock = std::chrono::steady_clock;
  const size_t size_bytes = source.size() * sizeof(float);
  const size_t copies = std::clamp<size_t>(kCopyBytes / size_bytes, 1, 64);
  std::vector<double> rates;
  for (size_t i = 0; i < copies; ++i) {
    std::fill(source.begin(), source.end(), static_cast<float>(i));
    const auto start = Clock::now();
    LOCKSTEP_RETURN_IF_ERROR(copy());
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    rates.push_back(static_cast<double>(size_bytes) / elapsed.count() * 1e-9);
  }
  return Median(std::move(rates));
}

Status MeasureSize(const Settings& settings, Session& session, const DRef& nop, size_t size_bytes,
                   Report& report) {
  Line& line = report.Add(
      {.row = "copy",
       .what = "CopyToWorker0, " + RoundedSize(size_bytes),
       .unit = "GB/s",
       .better = Better::kMore,
       .goal = Goal::RatioAtLeast(size_bytes < kCopyGoalFrom ? kSmallCopyGoal : kCopyGoal)});
  Line& after_call = report.Add({.row = "copy",
                                 .what = "the same right after a call",
                                 .unit = "GB/s",
                                 .better = Better::kMore,
                                 .goal = Goal::RatioAtLeast(1),
                                 .note = "has to wait for worker-0 first"});
  LOCKSTEP_ASSIGN_OR_RETURN(
      const auto segment,
      SharedSegment::Create("lockstep-bench-copy-" + std::to_string(getpid()), size_bytes));
  LOCKSTEP_RETURN_IF_ERROR(segment->Reserve(size_bytes));

  const size_t count = size_bytes / sizeof(float);
  std::vector<float> source(count);
  LOCKSTEP_ASSIGN_OR_RETURN(
      const DRef tensor, session.Empty(Shape({static_cast<int64_t>(count)}), DType::kFloat32, 0));
  const auto to_worker = [&] {
    return session.CopyToWorker0(tensor, ViewOf(source.data(), count));
  };
  const auto call_and_copy = [&]() -> Status {
    LOCKSTEP_RETURN_IF_ERROR(session.Call(nop).status());
    return to_worker();
  };
  LOCKSTEP_RETURN_IF_ERROR(to_worker());
  const std::vector<PlainCopy> rivals = PlainCopies();
  for (const PlainCopy& rival : rivals) rival.copy(segment->data(), source.data(), size_bytes);

  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(const double ours, Rate(source, to_worker));
    line.ours.push_back(ours);
    double best = 0;
    for (const PlainCopy& rival : rivals) {
      LOCKSTEP_ASSIGN_OR_RETURN(const double theirs, Rate(source, [&]() -> Status {
                                  rival.copy(segment->data(), source.data(), size_bytes);
                                  return OkStatus();
                                }));
      line.Rival(rival.name).values.push_back(theirs);
      best = std::max(best, theirs);
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const double after, Rate(source, call_and_copy));
    after_call.ours.push_back(after);
    LOCKSTEP_ASSIGN_OR_RETURN(const double sync_us, TimeSync(session, kSyncTime));
    const double nanos = static_cast<double>(size_bytes) / best + kSyncsAfterCall * sync_us * 1e3;
    after_call.Rival("the best of these and 1.5 syncs")
        .values.push_back(static_cast<double>(size_bytes) / nanos);
  }
  return OkStatus();
}

// What a small copy takes beside the copying itself, in nanoseconds: to find out where, and that
// worker-0 is idle.
Status MeasureSmall(const Settings& settings, Session& session, size_t size_bytes, Report& report) {
  Line& line = report.Add({.row = "copy",
                           .what = "CopyToWorker0 above a memcpy, " + RoundedSize(size_bytes),
                           .unit = "ns",
                           .better = Better::kLess,
                           .goal = Goal::ValueAtMost(kSmallGoalNanos)});
  const size_t count = size_bytes / sizeof(float);
  const std::vector<float> source(count);
  // Not at the same distance from a page's beginning: the processor would take what it reads for
  // what it has just written.
  std::vector<float> memory(count + kApart);
  float* const target = memory.data() + kApart;
  LOCKSTEP_ASSIGN_OR_RETURN(
      const DRef tensor, session.Empty(Shape({static_cast<int64_t>(count)}), DType::kFloat32, 0));
  const auto to_worker = [&] {
    return session.CopyToWorker0(tensor, ViewOf(source.data(), count));
  };
  const auto to_memory = [&] {
    std::memcpy(target, source.data(), size_bytes);
    asm volatile("" : : "g"(target) : "memory");
    return OkStatus();
  };
  LOCKSTEP_RETURN_IF_ERROR(to_worker());
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(const double whole, NanosEach(to_worker));
    LOCKSTEP_ASSIGN_OR_RETURN(const double copying, NanosEach(to_memory));
    line.ours.push_back(whole - copying);
  }
  return OkStatus();
}

}  // namespace

Status MeasureCopy(const Settings& settings, Report& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, StartLocalCluster(1));
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster->Connect());
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef nop, session.GetFunction("lockstep.nop"));
  for (const size_t size_bytes : {size_t{64}, size_t{4} << 10}) {
    LOCKSTEP_RETURN_IF_ERROR(MeasureSmall(settings, session, size_bytes, report));
  }
  for (const size_t size_bytes : CopySizes(settings.quick)) {
    LOCKSTEP_RETURN_IF_ERROR(MeasureSize(settings, session, nop, size_bytes, report));
  }
  LOCKSTEP_RETURN_IF_ERROR(session.Close());
  LOCKSTEP_RETURN_IF_ERROR(cluster->Stop());
  return MeasureHostTensors(settings, report);
}

}  // namespace lockstep::bench
