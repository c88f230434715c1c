#include "services/local/local_cluster.h"

#include <utility>

#include "runtime/base/child_process.h"
#include "runtime/base/deadline.h"
#include "runtime/base/log.h"
#include "runtime/base/random.h"
#include "runtime/control/zmq/zmq_context.h"
#include "services/config/endpoint.h"
#include "services/config/service_settings.h"
#include "services/controller/controller.h"
#include "services/local/local_workers.h"
#include "services/local/temporary_directory.h"

namespace lockstep::local {
namespace {

using namespace std::chrono_literals;
using Mode = LocalClusterOptions::Mode;

// While the cluster becomes ready, workers are looked at this often.
constexpr auto kPollInterval = 100ms;
// What a stop may take: for the workers, and for the controller after them.
constexpr auto kWorkerPatience = 3s;
constexpr auto kControllerPatience = 2s;

Status Check(const LocalClusterOptions& options) {
  if (options.tcp && options.mode == Mode::kThreads) {
    return InvalidArgument("workers that are threads of this process do not talk over TCP");
  }
  if (options.workers < 1 || options.workers > config::kMaxWorkers) {
    return InvalidArgument("a cluster has 1 to ", config::kMaxWorkers, " workers, not ",
                           options.workers);
  }
  return OkStatus();
}

std::string InprocEndpoint(const std::string& cluster, const std::string& role) {
  return "inproc://" + cluster + "." + role;
}

}  // namespace

// Those that a worker has in the context that all threads of a cluster share.
constexpr int kSocketsOfWorker = 8;

struct LocalCluster::Impl {
  explicit Impl(int most_sockets) : context(control::ZmqContext::CreateFor(most_sockets)) {}

  std::unique_ptr<TemporaryDirectory> directory;  // kProcesses only
  std::unique_ptr<TemporaryDirectory> fragments;  // kThreads only
  std::shared_ptr<control::ZmqContext> context;
  std::unique_ptr<controller::Controller> controller;
  std::unique_ptr<LocalWorkers> workers;
  std::string endpoint;  // for any client
  std::string
      inproc_endpoint;  // for clients of this process: a message takes no way through a kernel
  std::vector<pid_t> worker_pids;
  int num_workers = 0;

  bool tcp = false;

  // The endpoint called `role`: a name inside this process, a port, or a socket file.
  StatusOr<std::string> Endpoint(const std::string& cluster, const std::string& role) const {
    if (tcp) return std::string("tcp://127.0.0.1:*");
    if (directory == nullptr) return InprocEndpoint(cluster, role);
    return config::IpcEndpoint(directory->path() + "/" + role);
  }

  std::string FragmentCache(const LocalClusterOptions& options);
  Status Start(const LocalClusterOptions& options);
  Status WaitUntilReady(Deadline deadline);
  Status Stop();
};

// So that one worker compiles a fragment, and the others find it.
std::string LocalCluster::Impl::FragmentCache(const LocalClusterOptions& options) {
  if (!options.fragment_cache.empty()) return options.fragment_cache;
  if (directory != nullptr) return directory->path() + "/fragments";
  StatusOr<std::unique_ptr<TemporaryDirectory>> made = TemporaryDirectory::Create();
  if (!made.ok()) {
    log::Warn("every worker compiles fragments for itself: ", Message(made.status()));
    return "";
  }
  fragments = *std::move(made);
  return fragments->path() + "/fragments";
}

Status LocalCluster::Impl::Start(const LocalClusterOptions& options) {
  std::string program = options.worker_binary;
  if (options.mode == Mode::kProcesses) {
    if (program.empty()) {
      LOCKSTEP_ASSIGN_OR_RETURN(
          program, FindProgram("lockstep-worker", "LOCKSTEP_WORKER", "services/worker"));
    }
    LOCKSTEP_ASSIGN_OR_RETURN(directory, TemporaryDirectory::Create());
  }
  tcp = options.tcp;
  const std::string cluster = options.cluster.empty() ? "local-" + RandomHex(8) : options.cluster;

  controller::ControllerOptions controller_options;
  controller_options.cluster = cluster;
  controller_options.workers = options.workers;
  controller_options.collective_timeout = options.collective_timeout;
  controller_options.command_rings = options.command_rings;
  controller_options.replacement_hint = "call LocalCluster::ReplaceWorker({rank})";
  LOCKSTEP_ASSIGN_OR_RETURN(controller_options.client_endpoint, Endpoint(cluster, "client"));
  LOCKSTEP_ASSIGN_OR_RETURN(controller_options.worker_endpoint, Endpoint(cluster, "worker"));
  LOCKSTEP_ASSIGN_OR_RETURN(controller_options.liveness_endpoint, Endpoint(cluster, "liveness"));

  const std::string fragment_cache = FragmentCache(options);
  std::vector<worker::WorkerOptions> ranks(static_cast<size_t>(options.workers));
  for (int rank = 0; rank < options.workers; ++rank) {
    ranks[rank].cluster = cluster;
    ranks[rank].controller_endpoint = controller_options.worker_endpoint;
    ranks[rank].rank = rank;
    ranks[rank].module_path = options.module_path;
    ranks[rank].arena_bytes = options.arena_bytes;
    ranks[rank].max_session_bytes = options.max_session_bytes;
    ranks[rank].device = options.device;
    ranks[rank].device_memory_bytes = options.device_memory_bytes;
    ranks[rank].registered_memory_bytes = options.registered_memory_bytes;
    ranks[rank].plan_lanes = options.plan_lanes;
    ranks[rank].command_rings = options.command_rings;
    ranks[rank].compiler = options.compiler;
    ranks[rank].cuda_compiler = options.cuda_compiler;
    ranks[rank].nvrtc_library = options.nvrtc_library;
    ranks[rank].fragment_threads = options.fragment_threads;
    ranks[rank].compiler_memory_bytes = options.compiler_memory_bytes;
    ranks[rank].fragment_cache = fragment_cache;
    ranks[rank].join_timeout = options.start_timeout;
    LOCKSTEP_ASSIGN_OR_RETURN(ranks[rank].bulk_endpoint,
                              Endpoint(cluster, "bulk-" + std::to_string(rank)));
  }

  inproc_endpoint = InprocEndpoint(cluster, "client");
  controller_options.inproc_client_endpoint = inproc_endpoint;
  const Deadline deadline = Deadline::After(options.start_timeout);
  const auto start_workers = [&]() -> Status {
    if (options.mode == Mode::kThreads) {
      LOCKSTEP_ASSIGN_OR_RETURN(workers, StartWorkerThreads(ranks, context));
    } else {
      LOCKSTEP_ASSIGN_OR_RETURN(workers, StartWorkerProcesses(ranks, program, directory->path()));
    }
    return OkStatus();
  };
  // Child processes take a while to load: they do so while the controller starts, unless only that
  // can tell its port.
  const bool workers_first = options.mode == Mode::kProcesses && !tcp;
  if (workers_first) LOCKSTEP_RETURN_IF_ERROR(start_workers());
  LOCKSTEP_ASSIGN_OR_RETURN(controller, controller::Controller::Start(controller_options, context));
  endpoint = controller->client_endpoint();
  for (worker::WorkerOptions& rank : ranks)
    rank.controller_endpoint = controller->worker_endpoint();
  if (!workers_first) LOCKSTEP_RETURN_IF_ERROR(start_workers());
  worker_pids = workers->pids();
  num_workers = options.workers;
  return WaitUntilReady(deadline);
}

Status LocalCluster::Impl::WaitUntilReady(Deadline deadline) {
  SessionOptions options;
  options.endpoint = inproc_endpoint;
  options.name = "start of the cluster";
  while (true) {
    options.connect_timeout = std::min<std::chrono::milliseconds>(
        kPollInterval, std::chrono::ceil<std::chrono::milliseconds>(deadline.Remaining()));
    const Status status = Session::Connect(options, context).status();
    if (status.ok()) return status;
    // A worker that could not start is the cause; that the cluster is not ready is its effect.
    LOCKSTEP_RETURN_IF_ERROR(workers->CheckRunning());
    if (deadline.Expired()) return Annotate(status, "the cluster did not become ready in time");
  }
}

Status LocalCluster::Impl::Stop() {
  Status status;
  if (controller != nullptr) controller->RequestStop("the program stops its cluster");
  if (workers != nullptr) status = workers->Stop(Deadline::After(kWorkerPatience));
  workers.reset();
  if (controller != nullptr) {
    const Status ended = controller->Wait(Deadline::After(kControllerPatience));
    if (status.ok()) status = Annotate(ended, "controller");
  }
  controller.reset();
  directory.reset();
  fragments.reset();
  return status;
}

LocalCluster::LocalCluster(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

LocalCluster::~LocalCluster() {
  const Status status = Stop();
  if (!status.ok()) log::Warn("stopping the local cluster: ", Message(status));
}

StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Start(const LocalClusterOptions& options) {
  LOCKSTEP_RETURN_IF_ERROR(Check(options));
  log::UseStandardErrorForWarnings("lockstep");
  // The destructor stops what was started if the rest fails.
  std::unique_ptr<LocalCluster> cluster(new LocalCluster(std::make_unique<Impl>(
      options.mode == Mode::kThreads ? kSocketsOfWorker * options.workers : 0)));
  const Status status = cluster->impl_->Start(options);
  if (!status.ok()) {
    (void)cluster->Stop();  // what else goes wrong now is an effect of this
    return status;
  }
  return cluster;
}

StatusOr<Session> LocalCluster::Connect(SessionOptions options) {
  if (impl_->controller == nullptr) return FailedPrecondition("the cluster is stopped");
  options.endpoint = impl_->inproc_endpoint;
  return Session::Connect(options, impl_->context);
}

const std::string& LocalCluster::endpoint() const { return impl_->endpoint; }

const std::vector<pid_t>& LocalCluster::worker_pids() const { return impl_->worker_pids; }

Status LocalCluster::ReplaceWorker(Rank rank) {
  if (impl_->workers == nullptr) return FailedPrecondition("the cluster is stopped");
  const int size = impl_->num_workers;
  if (rank < 0 || rank >= size) {
    return OutOfRange("there is no rank ", rank, "; the ranks are 0 to ", size - 1);
  }
  const Status status = impl_->workers->Replace(rank);
  impl_->worker_pids = impl_->workers->pids();
  return status;
}

Status LocalCluster::Stop() { return impl_->Stop(); }

}  // namespace lockstep::local
