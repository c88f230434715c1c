#include "tools/bench/clusters.h"

#include <nlohmann/json.hpp>

#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/deadline.h"
#include "tools/bench/program.h"
#include "tools/bench/report.h"

namespace lockstep::bench {
namespace {

constexpr char kName[] = "bench";
constexpr std::chrono::seconds kPatience{30};

ProgramRun Command(const std::string& tool, const std::string& scratch,
                   std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), tool);
  return {.argv = std::move(arguments),
          .environment = {"XDG_RUNTIME_DIR=" + scratch},
          .scratch = scratch,
          .timeout = kPatience};
}

using Clock = std::chrono::steady_clock;

constexpr int kSyncWarmUps = 300;

}  // namespace

StatusOr<std::unique_ptr<local::LocalCluster>> StartLocalCluster(
    int workers, Way way, const std::string& worker_program) {
  local::LocalClusterOptions options;
  options.workers = workers;
  options.mode = local::LocalClusterOptions::Mode::kProcesses;
  options.tcp = way == Way::kTcp;
  options.command_rings = way == Way::kUsual ? "auto" : "off";
  options.worker_binary = worker_program;
  return local::LocalCluster::Start(options);
}

StatusOr<std::unique_ptr<local::LocalCluster>> StartGpuCluster(int workers) {
  local::LocalClusterOptions options;
  options.workers = workers;
  options.mode = local::LocalClusterOptions::Mode::kProcesses;
  options.device = "cuda";
  return local::LocalCluster::Start(options);
}

StatusOr<std::unique_ptr<ServiceCluster>> ServiceCluster::Up(const Settings& settings, int workers,
                                                             std::vector<std::string> more) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string tool,
                            FindProgram("lockstep", "LOCKSTEP_CLI", "tools/cli"));
  // From here on the destructor takes down what came up.
  std::unique_ptr<ServiceCluster> cluster(new ServiceCluster(tool, settings.scratch));
  const auto start = Deadline::Clock::now();
  std::vector<std::string> arguments = {
      "up", "--detach", "--name", kName, "--workers", std::to_string(workers), "--output", "json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string output,
                            RunProgram(Command(tool, settings.scratch, std::move(arguments))));
  cluster->start_time_ = Deadline::Clock::now() - start;
  try {
    const auto facts = nlohmann::json::parse(output);
    facts.at("endpoint").get_to(cluster->endpoint_);
    facts.at("controller_pid").get_to(cluster->controller_pid_);
    facts.at("worker_pids").get_to(cluster->worker_pids_);
  } catch (const nlohmann::json::exception& exception) {
    return Internal("`lockstep up` printed no JSON that can be used: ", exception.what());
  }
  return cluster;
}

ServiceCluster::~ServiceCluster() { (void)Down(); }

StatusOr<Session> ServiceCluster::Connect() const {
  SessionOptions options;
  options.endpoint = endpoint_;
  options.name = kName;
  options.timeout = kPatience;
  return Session::Connect(options);
}

StatusOr<std::vector<std::string>> ServiceCluster::WorkerMetrics() const {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::string output,
      RunProgram(Command(tool_, scratch_, {"status", "--name", kName, "--output", "json"})));
  std::vector<std::string> endpoints;
  try {
    const auto status = nlohmann::json::parse(output);
    for (const auto& worker : status.at("workers")) {
      endpoints.push_back(worker.at("metrics").get<std::string>());
    }
  } catch (const nlohmann::json::exception& exception) {
    return Internal("`lockstep status` printed no JSON that can be used: ", exception.what());
  }
  if (endpoints.empty()) return Internal("`lockstep status` has told of no worker");
  return endpoints;
}

Status ServiceCluster::Down() {
  if (!is_up_) return OkStatus();
  is_up_ = false;
  return RunProgram(Command(tool_, scratch_, {"down", kName})).status();
}

StatusOr<std::vector<double>> TimesOfSyncs(Session& session, std::chrono::milliseconds time,
                                           std::chrono::milliseconds pause) {
  for (int i = 0; i < kSyncWarmUps; ++i) LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
  std::vector<double> micros;
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    const auto start = Clock::now();
    LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
    micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  return micros;
}

StatusOr<double> TimeSync(Session& session, std::chrono::milliseconds time) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<double> micros, TimesOfSyncs(session, time));
  return Median(std::move(micros));
}

}  // namespace lockstep::bench
