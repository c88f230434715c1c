// What keys cost: everything on a tcp connection is encrypted then, with CurveZMQ.
//
// Two clusters of service processes over TCP take turns; one asks for keys, the other is the same
// without. Both ends of each connection share this machine's processors.
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/local/cluster_config.h"
#include "services/local/cluster_keys.h"
#include "services/local/cluster_processes.h"
#include "services/local/temporary_directory.h"
#include "tools/bench/clusters.h"
#include "tools/bench/rows.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kKeysWorkers = 4;
constexpr int kCalls = 20'000;
constexpr size_t kKeysCopyBytes = size_t{64} << 20;
constexpr char kWithoutKeys[] = "without keys";

class KeyedCluster {
 public:
  static StatusOr<std::unique_ptr<KeyedCluster>> Start(bool has_keys) {
    std::unique_ptr<KeyedCluster> cluster(new KeyedCluster());
    LOCKSTEP_ASSIGN_OR_RETURN(cluster->directory_, local::TemporaryDirectory::Create());
    local::ClusterProcessesOptions processes;
    processes.directory = cluster->directory_->path();
    local::ClusterOptions& options = processes.cluster;
    options.workers = options.controller.workers = kKeysWorkers;
    options.controller.client_endpoint = options.controller.worker_endpoint =
        options.controller.liveness_endpoint = "tcp://127.0.0.1:*";
    // As between hosts: what goes through shared memory is not encrypted.
    options.controller.command_rings = "off";
    for (int rank = 0; rank < kKeysWorkers; ++rank) {
      options.ranks.emplace_back().rank = rank;
      options.ranks.back().bulk_endpoint = "tcp://127.0.0.1:*";
    }
    if (has_keys) {
      LOCKSTEP_RETURN_IF_ERROR(local::MakeKeys(options, processes.directory));
    }
    LOCKSTEP_ASSIGN_OR_RETURN(cluster->processes_, local::ClusterProcesses::Start(processes));
    SessionOptions session;
    session.Reach(cluster->processes_->address());
    session.map_memory = false;
    LOCKSTEP_ASSIGN_OR_RETURN(Session connected, Session::Connect(session));
    cluster->session_ = std::make_unique<Session>(std::move(connected));
    LOCKSTEP_ASSIGN_OR_RETURN(cluster->nop_, cluster->session_->GetFunction("lockstep.nop"));
    LOCKSTEP_ASSIGN_OR_RETURN(
        cluster->tensor_,
        cluster->session_->Empty(Shape({static_cast<int64_t>(kKeysCopyBytes / sizeof(float))}),
                                 DType::kFloat32, 0));
    return cluster;
  }

  StatusOr<double> Sync(std::chrono::milliseconds time) { return TimeSync(*session_, time); }

  // No-op calls executed, a second.
  StatusOr<double> CallRate() {
    const auto start = Clock::now();
    for (int i = 0; i < kCalls; ++i) LOCKSTEP_RETURN_IF_ERROR(session_->Call(nop_).status());
    LOCKSTEP_RETURN_IF_ERROR(session_->SyncAll());
    return kCalls / std::chrono::duration<double>(Clock::now() - start).count();
  }

  // Into worker-0's tensor, in GB/s.
  StatusOr<double> CopyRate() {
    const auto start = Clock::now();
    LOCKSTEP_RETURN_IF_ERROR(
        session_->CopyToWorker0(tensor_, ViewOf(memory_.data(), memory_.size())));
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    return static_cast<double>(kKeysCopyBytes) / elapsed.count() * 1e-9;
  }

  Status Stop() {
    nop_ = tensor_ = DRef();
    LOCKSTEP_RETURN_IF_ERROR(session_->Close());
    return processes_->Stop("the measurement is over");
  }

 private:
  KeyedCluster() : memory_(kKeysCopyBytes / sizeof(float), 1.0f) {}

  std::unique_ptr<local::TemporaryDirectory> directory_;
  std::unique_ptr<local::ClusterProcesses> processes_;
  std::unique_ptr<Session> session_;
  DRef nop_;
  DRef tensor_;
  std::vector<float> memory_;
};

Line& AddLine(Report& report, const char* what, const char* unit, Better better) {
  return report.Add({.row = "keys",
                     .what = what,
                     .unit = unit,
                     .better = better,
                     .goal = Goal::None(),
                     .note = "over TCP on one host, with keys and without"});
}

}  // namespace

Status MeasureKeys(const Settings& settings, Report& report) {
  Line& sync = AddLine(report, "SyncAll, 4 worker processes, p50", "us", Better::kLess);
  Line& calls = AddLine(report, "no-op calls executed, 4 worker processes", "1/s", Better::kMore);
  Line& copy = AddLine(report, "CopyToWorker0, 64 MiB", "GB/s", Better::kMore);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto with, KeyedCluster::Start(true));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto without, KeyedCluster::Start(false));
  const std::chrono::milliseconds time(settings.quick ? 150 : 400);
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    for (KeyedCluster* const each : {with.get(), without.get()}) {
      const auto series = [&](Line& line) -> std::vector<double>& {
        return each == with.get() ? line.ours : line.Rival(kWithoutKeys).values;
      };
      LOCKSTEP_ASSIGN_OR_RETURN(const double sync_us, each->Sync(time));
      series(sync).push_back(sync_us);
      LOCKSTEP_ASSIGN_OR_RETURN(const double rate, each->CallRate());
      series(calls).push_back(rate);
      LOCKSTEP_ASSIGN_OR_RETURN(const double copied, each->CopyRate());
      series(copy).push_back(copied);
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(with->Stop());
  return without->Stop();
}

}  // namespace lockstep::bench
