// What a controller costs, by the number of its workers: `--scale`.
//
// The workers are simulated ones of this process (scale/simulated_worker.h), so that the machine
// has room for a thousand; the controller is a real one, in a process of its own. Processor time
// and memory are the controller's. Wall times are also those of a thousand workers on one thread.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/base/resources.h"
#include "tools/bench/rows.h"
#include "tools/bench/scale/growth.h"
#include "tools/bench/scale/growth_plot.h"
#include "tools/bench/scale/scale_point.h"

namespace lockstep::bench {
namespace {

constexpr int kFewestWorkers = 8;
constexpr int kMostWorkers = 1024;
constexpr int kMostWorkersInAHurry = 64;
// Of both numbers of workers, the goals compare a broadcast.
constexpr int kFewOfGoal = 64;
constexpr int kManyOfGoal = 1024;
constexpr double kGoalBroadcastRatio = 4;
constexpr double kGoalMemoryMb = 100;
constexpr double kGoalJoinSeconds = 10;

struct Measured {
  const char* name;
  const char* unit;
  double ScalePoint::*value;
};
constexpr Measured kMeasured[] = {
    {"join: until a session is open", "s", &ScalePoint::join_seconds},
    {"join: CPU", "ms", &ScalePoint::join_cpu_ms},
    {"a broadcast of a call: CPU", "us", &ScalePoint::broadcast_us},
    {"a sync, with all answers: CPU", "us", &ScalePoint::sync_us},
    {"a sync: until the client has it", "us", &ScalePoint::sync_wall_us},
    {"idle: CPU", "% of a core", &ScalePoint::idle_percent},
    {"memory when all have joined", "MB", &ScalePoint::memory_mb},
    {"memory, the most", "MB", &ScalePoint::peak_mb},
    {"memory of a session", "kB", &ScalePoint::session_kb},
    {"a loss by silence: until the client knows", "s", &ScalePoint::notice_seconds},
    {"after a loss: until a session has closed", "ms", &ScalePoint::close_ms},
    {"mending: until the session works", "ms", &ScalePoint::mend_ms},
    {"mending: CPU", "ms", &ScalePoint::mend_cpu_ms},
    {"size of a status", "kB", &ScalePoint::status_kb},
    {"why: until it has all answers", "ms", &ScalePoint::why_ms},
};

Growth ToGrowth(const std::vector<ScalePoint>& points) {
  Growth growth;
  for (const ScalePoint& point : points) growth.workers.push_back(point.workers);
  for (const Measured& measured : kMeasured) {
    Curve& curve = growth.curves.emplace_back(Curve{measured.name, measured.unit, {}});
    for (const ScalePoint& point : points) curve.values.push_back(point.*measured.value);
  }
  return growth;
}

const ScalePoint* Find(const std::vector<ScalePoint>& points, int workers) {
  for (const ScalePoint& point : points) {
    if (point.workers == workers) return &point;
  }
  return nullptr;
}

void Judge(const std::vector<ScalePoint>& points, Line& broadcast, Line& memory, Line& join) {
  const ScalePoint* const few = Find(points, kFewOfGoal);
  const ScalePoint* const many = Find(points, kManyOfGoal);
  if (many == nullptr) return;
  if (few != nullptr && few->broadcast_us > 0) {
    broadcast.ours = {many->broadcast_us / few->broadcast_us};
  }
  memory.ours = {many->peak_mb};
  join.ours = {many->join_seconds};
}

// From few workers to many; `points` has those that could be measured.
Status MeasureAll(const Settings& settings, std::vector<ScalePoint>& points) {
  std::vector<int> sizes = settings.workers;
  const int most = settings.quick ? kMostWorkersInAHurry : kMostWorkers;
  for (int workers = kFewestWorkers; settings.workers.empty() && workers <= most; workers *= 2) {
    sizes.push_back(workers);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  for (const int workers : sizes) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    ScaleOptions options;
    options.workers = workers;
    options.directory = settings.scratch + "/scale-" + std::to_string(workers);
    options.seconds = settings.quick ? 0.2 : 1;
    options.relay_fan_out = settings.relays;
    std::error_code error;
    if (!std::filesystem::create_directory(options.directory, error)) {
      return Internal("cannot make ", options.directory, ": ", error.message());
    }
    StatusOr<ScalePoint> point = MeasureScalePoint(options);
    if (!point.ok()) {
      return Annotate(point.status(), "with " + std::to_string(workers) + " workers");
    }
    points.push_back(*std::move(point));
    std::cerr << ' ' << workers << std::flush;
  }
  return OkStatus();
}

}  // namespace

Status MeasureScale(const Settings& settings, Report& report) {
  Line& broadcast = report.Add({.row = "scale",
                                .what = "CPU of a broadcast to 1,024 workers, by that to 64",
                                .unit = "times",
                                .goal = Goal::ValueAtMost(kGoalBroadcastRatio)});
  Line& memory = report.Add({.row = "scale",
                             .what = "memory of the controller of 1,024 workers",
                             .unit = "MB",
                             .goal = Goal::ValueAtMost(kGoalMemoryMb)});
  Line& join = report.Add({.row = "scale",
                           .what = "1,024 workers join, in any order",
                           .unit = "s",
                           .goal = Goal::ValueAtMost(kGoalJoinSeconds)});
  // Each worker has two sockets here, and each socket two descriptors.
  RaiseDescriptorLimit();
  std::vector<ScalePoint> points;
  const Status status = MeasureAll(settings, points);
  // Also of those before one that could not be measured.
  Judge(points, broadcast, memory, join);
  const Growth growth = ToGrowth(points);
  std::cout << '\n';
  if (!points.empty()) PrintGrowth(std::cout, growth);
  if (!settings.picture.empty() && status.ok()) return DrawGrowth(growth, settings.picture);
  return status;
}

}  // namespace lockstep::bench
