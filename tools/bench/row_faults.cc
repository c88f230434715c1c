// How soon a fault is known, and how soon the work goes on: `--faults`.
//
// The rivals are other programs, measured elsewhere (docs/performance.md has their numbers): they
// cannot be killed and mended within one run of ours.
#include <signal.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "runtime/base/deadline.h"
#include "runtime/base/process.h"
#include "runtime/base/shape.h"
#include "tools/bench/clusters.h"
#include "tools/bench/rows.h"

namespace lockstep::bench {
namespace {

using Clock = Deadline::Clock;

constexpr Rank kVictim = 1;
constexpr double kGoalKillMs = 20;
constexpr double kGoalFrozenMs = 2000;
// Errors that no silence has to prove.
constexpr double kGoalErrorMs = 20;
constexpr std::chrono::seconds kFaultPatience{30};

double MillisSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// A cluster, its session, and a tensor that every rank has.
class Bed {
 public:
  static StatusOr<std::unique_ptr<Bed>> Make(int workers) {
    LOCKSTEP_ASSIGN_OR_RETURN(auto cluster, StartLocalCluster(workers));
    LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster->Connect());
    auto bed = std::unique_ptr<Bed>(new Bed(std::move(cluster), std::move(session)));
    LOCKSTEP_RETURN_IF_ERROR(bed->Prepare());
    return bed;
  }

  Session& session() { return session_; }
  const DRef& tensor() const { return tensor_; }
  pid_t victim() const { return cluster_->worker_pids()[kVictim]; }

  StatusOr<DRef> Call(const char* function, auto... arguments) {
    LOCKSTEP_ASSIGN_OR_RETURN(const DRef ref, session_.GetFunction(function));
    return session_.Call(ref, arguments...);
  }
  // The victim sleeps, and the others wait for it in an allreduce. Returns when they do.
  Status HoldUp() {
    LOCKSTEP_RETURN_IF_ERROR(Call("lockstep.sleep", 3600.0, kVictim).status());
    LOCKSTEP_RETURN_IF_ERROR(session_.AllReduce(tensor_, Reduction::kSum).status());
    LOCKSTEP_RETURN_IF_ERROR(session_.Flush());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return OkStatus();
  }
  // Calls until one fails: when, in milliseconds after `begin`. kInternal if it is not `code`.
  StatusOr<double> TimeToError(Clock::time_point begin, StatusCode code) {
    const Deadline deadline = Deadline::After(kFaultPatience);
    Status status;
    while (status.ok() && !deadline.Expired()) status = session_.SyncAll();
    const double millis = MillisSince(begin);
    if (status.code() == code) return millis;
    return Internal("the client read another error than it should: ", status.ToString());
  }
  // Until the session works again, in milliseconds.
  StatusOr<double> TimeToRecover(bool replace) {
    const auto begin = Clock::now();
    if (replace) {
      LOCKSTEP_RETURN_IF_ERROR(cluster_->ReplaceWorker(kVictim));
      LOCKSTEP_RETURN_IF_ERROR(session_.AwaitWorkers(kFaultPatience));
    }
    LOCKSTEP_RETURN_IF_ERROR(session_.Reset());
    LOCKSTEP_RETURN_IF_ERROR(replace ? Prepare() : session_.SyncAll());
    return MillisSince(begin);
  }

 private:
  Bed(std::unique_ptr<local::LocalCluster> cluster, Session session)
      : cluster_(std::move(cluster)), session_(std::move(session)) {}

  // A collective over all ranks, so that all are connected, too.
  Status Prepare() {
    LOCKSTEP_ASSIGN_OR_RETURN(tensor_, session_.Empty(Shape{1024}, DType::kFloat32));
    LOCKSTEP_RETURN_IF_ERROR(session_.AllReduce(tensor_, Reduction::kSum).status());
    return session_.SyncAll();
  }

  std::unique_ptr<local::LocalCluster> cluster_;
  Session session_;
  DRef tensor_;
};

// Brings a fault about, and returns when it began, and the code that the client has to read.
struct Fault {
  const char* name;
  double goal_ms;
  bool costs_the_worker;
  StatusCode code;
  std::function<StatusOr<Clock::time_point>(Bed&, bool in_collective)> bring_about;
};

StatusOr<Clock::time_point> Signal(Bed& bed, bool in_collective, int signal) {
  if (in_collective) LOCKSTEP_RETURN_IF_ERROR(bed.HoldUp());
  const auto begin = Clock::now();
  if (kill(bed.victim(), signal) != 0) return Internal("the worker cannot be signalled");
  return begin;
}

StatusOr<Clock::time_point> Throw(Bed& bed, bool in_collective) {
  const auto begin = Clock::now();
  LOCKSTEP_RETURN_IF_ERROR(bed.Call("lockstep.fail", "on purpose", kVictim).status());
  if (in_collective) {
    LOCKSTEP_RETURN_IF_ERROR(bed.session().AllReduce(bed.tensor(), Reduction::kSum).status());
  }
  return begin;
}

StatusOr<Clock::time_point> Disagree(Bed& bed, bool /*in_collective*/) {
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef odd, bed.session().Empty(Shape{4}, DType::kFloat32));
  const std::vector<float> three(3);
  LOCKSTEP_RETURN_IF_ERROR(
      bed.session().DebugSet(odd, kVictim, HostTensor::Of<float>(Shape{3}, three)));
  const auto begin = Clock::now();
  LOCKSTEP_RETURN_IF_ERROR(bed.session().AllReduce(odd, Reduction::kSum).status());
  return begin;
}

Status MeasureFault(const Settings& settings, Report& report, int workers, const Fault& fault,
                    bool in_collective) {
  const std::string what = std::to_string(workers) + " workers, " + fault.name +
                           (in_collective ? ", in a collective" : ", idle");
  Line& error = report.Add(
      {.row = "faults", .what = what, .unit = "ms", .goal = Goal::ValueAtMost(fault.goal_ms)});
  Line& again = report.Add(
      {.row = "faults",
       .what = what + (fault.costs_the_worker ? ": replaced, and works" : ": reset, and works"),
       .unit = "ms"});
  LOCKSTEP_ASSIGN_OR_RETURN(const auto bed, Bed::Make(workers));
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(const auto begin, fault.bring_about(*bed, in_collective));
    LOCKSTEP_ASSIGN_OR_RETURN(const double millis, bed->TimeToError(begin, fault.code));
    error.ours.push_back(millis);
    LOCKSTEP_ASSIGN_OR_RETURN(const double recovered, bed->TimeToRecover(fault.costs_the_worker));
    again.ours.push_back(recovered);
  }
  return OkStatus();
}

}  // namespace

Status MeasureFaults(const Settings& settings, Report& report) {
  // What the controller says of every fault is no news here.
  const auto level = spdlog::get_level();
  spdlog::set_level(spdlog::level::off);
  const absl::Cleanup speak_again = [&] { spdlog::set_level(level); };
  const std::vector<Fault> faults = {
      {"kill -9", kGoalKillMs, true, StatusCode::kUnavailable,
       [](Bed& bed, bool busy) { return Signal(bed, busy, SIGKILL); }},
      {"SIGSTOP", kGoalFrozenMs, true, StatusCode::kUnavailable,
       [](Bed& bed, bool busy) { return Signal(bed, busy, SIGSTOP); }},
      {"a function throws", kGoalErrorMs, false, StatusCode::kInternal, Throw},
      {"ranks disagree", kGoalErrorMs, false, StatusCode::kInvalidArgument, Disagree},
  };
  for (const int workers : {4, 8}) {
    for (const Fault& fault : faults) {
      const bool only_in_collective = fault.code == StatusCode::kInvalidArgument;
      if (!only_in_collective) {
        LOCKSTEP_RETURN_IF_ERROR(MeasureFault(settings, report, workers, fault, false));
      }
      LOCKSTEP_RETURN_IF_ERROR(MeasureFault(settings, report, workers, fault, true));
    }
  }
  return OkStatus();
}

}  // namespace lockstep::bench
