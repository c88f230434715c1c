// Copies to and from worker-0 where it shares no memory with the client, beside a plain TCP stream;
// and what they cost a client that waits for the workers meanwhile.
//
// The rates are those over loopback: both ends, and whatever the kernel does for either, share this
// machine's processors, so this is harder than a network is.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/quantity.h"
#include "tools/bench/clusters.h"
#include "tools/bench/program.h"
#include "tools/bench/report.h"
#include "tools/bench/rows.h"
#include "tools/bench/settings.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBulkGoal = 0.8;
constexpr double kDelayGoal = 1 / 2.0;  // a sync beside a copy takes at most twice its time
constexpr size_t kBulkBytes = 512 * kMiB;
constexpr size_t kBesideSyncs = 1024 * kMiB;
constexpr int kWarmUps = 300;
constexpr char kWire[] = "10gbit";
constexpr char kRival[] = "plain TCP stream";

SessionOptions BySocket() {
  SessionOptions options;
  options.map_memory = false;
  return options;
}

// One tensor on worker-0, and memory of its size here.
class Copies {
 public:
  static StatusOr<Copies> Prepare(Session& session, size_t size_bytes) {
    const size_t count = size_bytes / sizeof(float);
    LOCKSTEP_ASSIGN_OR_RETURN(
        DRef tensor, session.Empty(Shape({static_cast<int64_t>(count)}), DType::kFloat32, 0));
    Copies copies(session, std::move(tensor), count);
    LOCKSTEP_RETURN_IF_ERROR(copies.Write());  // touches both sides' memory
    return copies;
  }

  Status Write() {
    return session_->CopyToWorker0(tensor_, ViewOf(memory_.data(), memory_.size()));
  }
  Status Read() {
    return session_->CopyFromWorker0(ViewOf(memory_.data(), memory_.size()), tensor_);
  }

  // The median rate of `copy` (Write or Read) in GB/s.
  StatusOr<double> Rate(Status (Copies::*copy)()) {
    const size_t size_bytes = memory_.size() * sizeof(float);
    std::vector<double> rates;
    for (size_t i = 0; i < std::clamp<size_t>(kBulkBytes / size_bytes, 1, 64); ++i) {
      std::fill(memory_.begin(), memory_.end(), static_cast<float>(i));
      const auto start = Clock::now();
      LOCKSTEP_RETURN_IF_ERROR((this->*copy)());
      const std::chrono::duration<double> elapsed = Clock::now() - start;
      rates.push_back(static_cast<double>(size_bytes) / elapsed.count() * 1e-9);
    }
    return Median(std::move(rates));
  }

 private:
  Copies(Session& session, DRef tensor, size_t count)
      : session_(&session), tensor_(std::move(tensor)), memory_(count) {}

  Session* session_;
  DRef tensor_;
  std::vector<float> memory_;
};

Status MeasureRates(const Settings& settings, Session& session, Report& report) {
  const std::vector<size_t> sizes = settings.quick
                                        ? std::vector<size_t>{kMiB, 64 * kMiB}
                                        : std::vector<size_t>{kMiB, 64 * kMiB, 512 * kMiB};
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string rival,
                            FindProgram("tcp_stream", "LOCKSTEP_TCP_STREAM", "tools/bench"));
  for (const size_t size_bytes : sizes) {
    const auto add = [&](const char* what) -> Line& {
      return report.Add({.row = "bulk",
                         .what = what + (", " + RoundedSize(size_bytes)),
                         .unit = "GB/s",
                         .better = Better::kMore,
                         .goal = Goal::RatioAtLeast(kBulkGoal)});
    };
    Line& write = add("CopyToWorker0 over TCP");
    Line& read = add("CopyFromWorker0 over TCP");
    LOCKSTEP_ASSIGN_OR_RETURN(Copies copies, Copies::Prepare(session, size_bytes));
    for (int round = 0; round < settings.rounds; ++round) {
      LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
      LOCKSTEP_ASSIGN_OR_RETURN(const double written, copies.Rate(&Copies::Write));
      write.ours.push_back(written);
      const std::string size = std::to_string(size_bytes);
      LOCKSTEP_ASSIGN_OR_RETURN(const Numbers numbers,
                                RunRival({.argv = {rival, size}, .scratch = settings.scratch}));
      LOCKSTEP_ASSIGN_OR_RETURN(const double stream, Get(numbers, "rate_" + size));
      write.Rival(kRival).values.push_back(stream);
      read.Rival(kRival).values.push_back(stream);
      LOCKSTEP_ASSIGN_OR_RETURN(const double taken, copies.Rate(&Copies::Read));
      read.ours.push_back(taken);
    }
  }
  return OkStatus();
}

// The 99th percentile of SyncAll in microseconds, for as long as `more` says.
template <typename More>
StatusOr<double> SyncP99(Session& session, More more) {
  std::vector<double> micros;
  for (auto start = Clock::now(); more();) {
    LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
    const auto now = Clock::now();
    micros.push_back(std::chrono::duration<double, std::micro>(now - start).count());
    start = now;
  }
  if (micros.empty()) return Internal("the copy was over before a sync was");
  return Percentile(std::move(micros), 0.99);
}

// A second session syncs while the first one copies. Both are of a cluster of its own.
Status MeasureDelay(const Settings& settings, Line& line) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, StartLocalCluster(1, Way::kTcp));
  LOCKSTEP_ASSIGN_OR_RETURN(Session copying, cluster->Connect(BySocket()));
  LOCKSTEP_ASSIGN_OR_RETURN(Session waiting, cluster->Connect());
  LOCKSTEP_ASSIGN_OR_RETURN(Copies copies, Copies::Prepare(copying, kBesideSyncs));
  for (int i = 0; i < kWarmUps; ++i) LOCKSTEP_RETURN_IF_ERROR(waiting.SyncAll());
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    const auto end = Clock::now() + std::chrono::milliseconds(500);
    LOCKSTEP_ASSIGN_OR_RETURN(const double idle,
                              SyncP99(waiting, [&] { return Clock::now() < end; }));
    line.Rival("idle").values.push_back(idle);
    std::atomic<bool> over{false};
    Status copied;
    std::thread copier([&] {
      copied = copies.Write();
      over = true;
    });
    const StatusOr<double> beside = SyncP99(waiting, [&] { return !over; });
    copier.join();
    LOCKSTEP_RETURN_IF_ERROR(copied);
    LOCKSTEP_RETURN_IF_ERROR(beside.status());
    line.ours.push_back(*beside);
  }
  LOCKSTEP_RETURN_IF_ERROR(waiting.Close());
  LOCKSTEP_RETURN_IF_ERROR(copying.Close());
  return cluster->Stop();
}

// The calling thread, and what it starts, get a network of their own, whose loopback is a wire of
// kWire. Takes root.
Status MakeWire() {
  if (unshare(CLONE_NEWNET) != 0) {
    return PermissionDenied("a network of its own takes root: ", std::strerror(errno));
  }
  // With the queue in front of it that Linux has by default.
  const std::string make = "ip link set lo up && tc qdisc add dev lo root handle 1: tbf rate " +
                           std::string(kWire) + " burst 256kb latency 20ms && " +
                           "tc qdisc add dev lo parent 1: handle 2: pfifo_fast";
  if (std::system(make.c_str()) != 0) return Unavailable("cannot run: ", make);
  return OkStatus();
}

Status MeasureDelayOnWire(const Settings& settings, Line& line) {
  Status status;
  std::thread([&] {
    const Status wire = MakeWire();
    if (wire.ok()) {
      status = MeasureDelay(settings, line);
    } else {
      line.note = Message(wire);
    }
  }).join();
  return status;
}

Status MeasureDelays(const Settings& settings, Report& report) {
  const std::string what = "SyncAll while 1 GiB is copied";
  Line& wire = report.Add({.row = "bulk",
                           .what = what + " over " + kWire + ", p99",
                           .unit = "us",
                           .better = Better::kLess,
                           .goal = Goal::RatioAtLeast(kDelayGoal)});
  Line& loopback = report.Add({.row = "bulk",
                               .what = what + " over loopback, p99",
                               .unit = "us",
                               .better = Better::kLess,
                               .goal = Goal::None(),
                               .note = "the copy alone keeps two processors busy"});
  LOCKSTEP_RETURN_IF_ERROR(MeasureDelayOnWire(settings, wire));
  return MeasureDelay(settings, loopback);
}

}  // namespace

Status MeasureBulk(const Settings& settings, Report& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, StartLocalCluster(1, Way::kTcp));
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster->Connect(BySocket()));
  LOCKSTEP_RETURN_IF_ERROR(MeasureRates(settings, session, report));
  LOCKSTEP_RETURN_IF_ERROR(session.Close());
  LOCKSTEP_RETURN_IF_ERROR(cluster->Stop());
  return MeasureDelays(settings, report);
}

}  // namespace lockstep::bench
