#include "tests/integration/cluster.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/base/sanitizers.h"
#include "runtime/client/admin.h"
#include "runtime/collective/nccl/nccl.h"
#include "runtime/control/zmq/zmq_context.h"
#include "runtime/cuda/gpu.h"
#include "services/controller/controller.h"
#include "services/local/cluster_config.h"
#include "services/local/cluster_keys.h"
#include "services/local/cluster_processes.h"
#include "services/local/local_cluster.h"
#include "services/local/temporary_directory.h"
#include "services/worker/worker.h"
#include "tests/integration/hosts/netns_cluster.h"
#include "tests/support/gpu.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;

constexpr auto kStartPatience = 60s;
constexpr auto kStopPatience = 20s;
constexpr char kAnyPort[] = "tcp://127.0.0.1:*";

class OwnLocalCluster final : public Cluster {
 public:
  static StatusOr<std::unique_ptr<Cluster>> Start(local::LocalClusterOptions::Mode mode,
                                                  const ClusterOptions& options) {
    local::LocalClusterOptions local;
    local.workers = options.workers;
    local.mode = mode;
    local.module_path = options.worker.module_path;
    local.arena_bytes = options.worker.arena_bytes;
    local.max_session_bytes = options.worker.max_session_bytes;
    local.device = options.worker.device;
    local.device_memory_bytes = options.worker.device_memory_bytes;
    local.compiler = options.worker.compiler;
    local.compiler_memory_bytes = options.worker.compiler_memory_bytes;
    local.fragment_cache = options.worker.fragment_cache;
    local.collective_timeout = options.controller.collective_timeout;
    local.command_rings = options.controller.command_rings;
    local.start_timeout = kStartPatience;
    LOCKSTEP_ASSIGN_OR_RETURN(auto cluster, local::LocalCluster::Start(local));
    return std::unique_ptr<Cluster>(new OwnLocalCluster(std::move(cluster)));
  }
  StatusOr<Session> Connect(SessionOptions options) override {
    return cluster_->Connect(std::move(options));
  }
  ControllerAddress address() const override { return cluster_->endpoint(); }
  std::vector<pid_t> worker_pids() const override { return cluster_->worker_pids(); }
  Status ReplaceWorker(Rank rank) override { return cluster_->ReplaceWorker(rank); }
  Status Stop() override { return cluster_->Stop(); }

 private:
  explicit OwnLocalCluster(std::unique_ptr<local::LocalCluster> cluster)
      : cluster_(std::move(cluster)) {}

  std::unique_ptr<local::LocalCluster> cluster_;
};

// Of the cluster's worker with this rank.
worker::WorkerOptions WorkerOf(const ClusterOptions& options, Rank rank) {
  worker::WorkerOptions worker = options.worker;
  worker.rank = rank;
  if (options.odd_by_socket && rank % 2 == 1) worker.command_rings = "off";
  return worker;
}

class TcpThreads final : public Cluster {
 public:
  static StatusOr<std::unique_ptr<Cluster>> Start(const ClusterOptions& options) {
    std::unique_ptr<TcpThreads> cluster(new TcpThreads());
    controller::ControllerOptions controller = options.controller;
    controller.workers = options.workers;
    controller.client_endpoint = kAnyPort;
    controller.worker_endpoint = kAnyPort;
    controller.liveness_endpoint = kAnyPort;
    LOCKSTEP_ASSIGN_OR_RETURN(cluster->controller_,
                              controller::Controller::Start(controller, cluster->context_));
    for (int rank = 0; rank < options.workers; ++rank) {
      worker::WorkerOptions worker = WorkerOf(options, rank);
      worker.controller_endpoint = cluster->controller_->worker_endpoint();
      LOCKSTEP_ASSIGN_OR_RETURN(auto started, worker::Worker::Start(worker, cluster->context_));
      cluster->workers_.push_back(std::move(started));
    }
    SessionOptions first;
    first.connect_timeout = kStartPatience;
    LOCKSTEP_RETURN_IF_ERROR(cluster->Connect(first).status());
    return std::unique_ptr<Cluster>(std::move(cluster));
  }
  ~TcpThreads() override { (void)Stop(); }

  StatusOr<Session> Connect(SessionOptions options) override {
    options.Reach(address());
    return Session::Connect(options, context_);
  }
  ControllerAddress address() const override { return controller_->client_endpoint(); }
  std::vector<pid_t> worker_pids() const override { return {}; }
  Status ReplaceWorker(Rank) override { return Unimplemented("these workers are threads"); }
  Status Stop() override {
    controller_->RequestStop("the test is over");
    const Deadline deadline = Deadline::After(kStopPatience);
    Status status = controller_->Wait(deadline);
    for (auto& worker : workers_) status.Update(worker->Wait(deadline));
    return status;
  }

 private:
  TcpThreads() = default;

  const std::shared_ptr<control::ZmqContext> context_ = control::ZmqContext::Create();
  std::unique_ptr<controller::Controller> controller_;
  std::vector<std::unique_ptr<worker::Worker>> workers_;
};

class TcpProcesses final : public Cluster {
 public:
  static StatusOr<std::unique_ptr<Cluster>> Start(const ClusterOptions& options) {
    LOCKSTEP_ASSIGN_OR_RETURN(auto directory, local::TemporaryDirectory::Create());
    local::ClusterProcessesOptions processes;
    processes.directory = directory->path();
    processes.start_timeout = kStartPatience;
    local::ClusterOptions& cluster = processes.cluster;
    cluster.workers = options.workers;
    cluster.controller = options.controller;
    cluster.controller.workers = options.workers;
    cluster.controller.client_endpoint = kAnyPort;
    cluster.controller.worker_endpoint = kAnyPort;
    cluster.controller.liveness_endpoint = kAnyPort;
    for (int rank = 0; rank < options.workers; ++rank) {
      cluster.ranks.push_back(WorkerOf(options, rank));
    }
    if (options.keys) LOCKSTEP_RETURN_IF_ERROR(local::MakeKeys(cluster, directory->path()));
    LOCKSTEP_ASSIGN_OR_RETURN(auto started, local::ClusterProcesses::Start(processes));
    return std::unique_ptr<Cluster>(new TcpProcesses(std::move(directory), std::move(started)));
  }

  StatusOr<Session> Connect(SessionOptions options) override {
    options.Reach(address());
    return Session::Connect(options);
  }
  ControllerAddress address() const override { return processes_->address(); }
  std::vector<pid_t> worker_pids() const override { return processes_->worker_pids(); }
  pid_t controller_pid() const override { return processes_->controller_pid(); }
  Status ReplaceWorker(Rank rank) override { return processes_->ReplaceWorker(rank); }
  Status RestartController() override { return processes_->RestartController(); }
  Status Stop() override { return processes_->Stop("the test is over"); }

 private:
  TcpProcesses(std::unique_ptr<local::TemporaryDirectory> directory,
               std::unique_ptr<local::ClusterProcesses> processes)
      : directory_(std::move(directory)), processes_(std::move(processes)) {}

  std::unique_ptr<local::TemporaryDirectory> directory_;
  std::unique_ptr<local::ClusterProcesses> processes_;
};

class HostsCluster final : public Cluster {
 public:
  static StatusOr<std::unique_ptr<Cluster>> Start(const ClusterOptions& options) {
    NetnsClusterOptions hosts;
    // All have as many ranks.
    hosts.hosts = options.workers % 2 == 0 ? 2 : options.workers;
    hosts.ranks_per_host = options.workers / hosts.hosts;
    hosts.controller = options.controller;
    hosts.worker = options.worker;
    hosts.worker.bulk_endpoint.clear();
    std::unique_ptr<HostsCluster> cluster(new HostsCluster(hosts));
    LOCKSTEP_RETURN_IF_ERROR(cluster->cluster_.Start());
    return std::unique_ptr<Cluster>(std::move(cluster));
  }
  StatusOr<Session> Connect(SessionOptions options) override {
    return cluster_.Connect(std::move(options));
  }
  ControllerAddress address() const override { return cluster_.address(); }
  std::vector<pid_t> worker_pids() const override { return {}; }
  Status ReplaceWorker(Rank rank) override {
    cluster_.KillWorker(rank);
    return cluster_.StartWorker(rank);
  }
  Status RestartController() override {
    cluster_.KillController();
    return cluster_.StartController();
  }
  // When it returns, no process answers any more. However each has ended: tests kill some.
  Status Stop() override {
    LOCKSTEP_RETURN_IF_ERROR(ShutdownCluster(address(), "the test is over", kStopPatience));
    return cluster_.AwaitAllEnds();
  }

 private:
  explicit HostsCluster(const NetnsClusterOptions& options) : cluster_(options) {}

  NetnsCluster cluster_;
};

using SharedClusters = std::map<ClusterKind, std::unique_ptr<Cluster>>;
SharedClusters& AllShared() {
  static SharedClusters clusters;
  return clusters;
}

// Stops the shared clusters while the program is still whole.
class StopShared : public ::testing::Environment {
 public:
  void TearDown() override {
    for (auto& [kind, cluster] : AllShared()) {
      const Status status = cluster->Stop();
      EXPECT_TRUE(status.ok()) << status;
    }
    AllShared().clear();
  }
};
::testing::Environment* const stop_shared = ::testing::AddGlobalTestEnvironment(new StopShared);

// Before there are threads: a LocalCluster would set up logging beside another cluster's.
const bool logs_are_set_up = [] {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("test"));
  spdlog::set_level(spdlog::level::warn);
  return true;
}();

bool AreThreads(ClusterKind kind) {
  return kind == ClusterKind::kLocalThreads || kind == ClusterKind::kTcpThreads;
}

// Processes can share one: each looks like a host of its own (tests/support/sharing_worker).
bool TooFewGpusForThreads() {
  const ClusterOptions options;
  if (options.worker.device == "cpu") return false;
  const auto gpus = cuda::ListGpus();
  return gpus.ok() && gpus->size() < static_cast<size_t>(options.workers);
}

}  // namespace

ClusterOptions::ClusterOptions() {
  // A hang shows as an error that names the ranks, long before the test runner gives up.
  controller.collective_timeout = 40s;
  // Machines that run many tests at once may let a worker wait for its turn.
  controller.worker_timeout = 20s;
  worker.controller_timeout = 40s;
  worker.bulk_endpoint = kAnyPort;
  // Clusters over TCP, however few cores there are; local ones have what is usual.
  worker.plan_lanes = 2;
  worker.compiler = std::filesystem::absolute("tests/unit/runtime/fragment/testdata/fake_compiler");
  const char* const rings = std::getenv("LOCKSTEP_COMMAND_RINGS");
  if (rings != nullptr) controller.command_rings = rings;
  const char* const device = std::getenv("LOCKSTEP_DEVICE");
  if (device != nullptr) worker.device = device;
}

StatusOr<std::unique_ptr<Cluster>> Cluster::Start(ClusterKind kind, const ClusterOptions& options) {
  switch (kind) {
    case ClusterKind::kLocalThreads:
      return OwnLocalCluster::Start(local::LocalClusterOptions::Mode::kThreads, options);
    case ClusterKind::kLocalProcesses:
      return OwnLocalCluster::Start(local::LocalClusterOptions::Mode::kProcesses, options);
    case ClusterKind::kTcpThreads:
      return TcpThreads::Start(options);
    case ClusterKind::kTcpProcesses:
      return TcpProcesses::Start(options);
    case ClusterKind::kHosts:
      return HostsCluster::Start(options);
  }
  return InvalidArgument("no such kind of cluster");
}

Cluster& SharedCluster(ClusterKind kind) {
  auto& cluster = AllShared()[kind];
  if (cluster == nullptr) {
    ClusterOptions options;
    options.worker.module_path = {ModuleDirectory()};
    auto started = Cluster::Start(kind, options);
    // Nothing that follows could be tested.
    if (!started.ok()) {
      ADD_FAILURE() << started.status();
      std::abort();
    }
    cluster = std::move(*started);
  }
  return *cluster;
}

std::string ModuleDirectory() {
  const std::string runfiles = std::string(std::getenv("TEST_SRCDIR")) + "/" +
                               std::getenv("TEST_WORKSPACE") +
                               "/tests/unit/runtime/module/testdata";
  // The files there are links, so the real directory is asked for.
  return std::filesystem::canonical(runfiles + "/test_module.so").parent_path();
}

std::vector<ClusterKind> PossibleKinds() {
  const char* const wanted = std::getenv("LOCKSTEP_CLUSTERS");
  if (wanted != nullptr && std::string(wanted) == "hosts") return {ClusterKind::kHosts};
  std::vector<ClusterKind> kinds = {ClusterKind::kLocalThreads, ClusterKind::kLocalProcesses,
                                    ClusterKind::kTcpThreads, ClusterKind::kTcpProcesses};
  if (TooFewGpusForThreads()) std::erase_if(kinds, AreThreads);
  return kinds;
}

std::vector<ClusterKind> AllKinds() {
  std::vector<ClusterKind> kinds = PossibleKinds();
  if (!kSanitized) return kinds;
  // Nothing is lost: what differs between kinds (how services start, by what messages go) does not
  // know devices. So a suite that runs with both devices is on each kind once, and with each device
  // on threads and on processes. One that has CPUs only has the other two in optimised tests.
  const bool on_cpus = ClusterOptions().worker.device == "cpu";
  std::erase(kinds, on_cpus ? ClusterKind::kLocalThreads : ClusterKind::kTcpThreads);
  std::erase(kinds, on_cpus ? ClusterKind::kTcpProcesses : ClusterKind::kLocalProcesses);
  return kinds;
}

std::string WhyNot(ClusterKind kind) {
  if (ClusterOptions().worker.device != "cpu") {
    const std::string why = support::WhyWithoutGpu(collective::nccl::Available());
    if (!why.empty()) return why;
    if (AreThreads(kind) && TooFewGpusForThreads()) return "threads of one process share no GPU";
  }
  return kind == ClusterKind::kHosts ? support::VirtualHosts::WhyNot() : "";
}

std::string NameOf(const ::testing::TestParamInfo<ClusterKind>& info) {
  switch (info.param) {
    case ClusterKind::kLocalThreads:
      return "LocalThreads";
    case ClusterKind::kLocalProcesses:
      return "LocalProcesses";
    case ClusterKind::kTcpThreads:
      return "TcpThreads";
    case ClusterKind::kTcpProcesses:
      return "TcpProcesses";
    case ClusterKind::kHosts:
      return "Hosts";
  }
  return "Unknown";
}

}  // namespace lockstep::testing
