#include "services/config/service_config.h"

#include <utility>

#include "services/config/endpoint.h"

namespace lockstep::config {
namespace {

using namespace std::chrono_literals;

constexpr size_t kKiB = size_t{1} << 10;
constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kGiB = size_t{1} << 30;
constexpr size_t kTiB = size_t{1} << 40;

constexpr char kLoopback[] = "loopback";
constexpr char kNetwork[] = "network";
constexpr char kPlaintextDoc[] =
    "How far messages may go that nobody encrypts and anybody could have sent: loopback (this "
    "host), or network (choose it only where nobody else is).";

// Endpoints that leave this host, although nobody has said that they may.
void CheckPlaintext(const std::string& plaintext,
                    const std::vector<std::pair<std::string, std::string>>& endpoints,
                    const std::vector<Entry>& entries, const std::string& prefix,
                    Problems& problems) {
  if (plaintext == kNetwork) return;
  for (const auto& [key, endpoint] : endpoints) {
    const Status status = CheckStaysOnThisHost(endpoint);
    const Entry* const entry = LastOf(entries, prefix + key);
    if (status.ok() || entry == nullptr) continue;
    problems.Add(entry->where, prefix + key + ": " + Message(status));
  }
}

}  // namespace

Settings ControllerSettings(controller::ControllerOptions& options) {
  return {
      Name("cluster", options.cluster,
           "Name of the cluster; workers that ask for another are refused."),
      Integer("workers", options.workers, 1, kMaxWorkers,
              "Number of workers: the size of the world."),
      Required(Endpoint("client_endpoint", options.client_endpoint, "Where clients connect.")),
      Required(Endpoint("worker_endpoint", options.worker_endpoint,
                        "Where workers connect for their commands.")),
      Required(Endpoint("liveness_endpoint", options.liveness_endpoint,
                        "Where workers send heartbeats, apart from the commands.")),
      HttpEndpoint("metrics_endpoint", options.metrics_endpoint,
                   "Where /metrics, /healthz and /readyz are served; without one, nowhere."),
      Text("advertise_address", options.advertise_address,
           "The address or name by which others reach this controller, where it differs from the "
           "one that it listens at."),
      Choice("plaintext", options.plaintext, {kLoopback, kNetwork}, kPlaintextDoc),
      Choice("communicator", options.communicator, {"auto", "shm", "gloo", "mpi", "shm+mpi"},
             "What connects the workers: shm (they map each other's memory), gloo (a network), mpi "
             "(mpirun has started them), shm+mpi (shm where they can, mpi between), or auto: shm "
             "and gloo, by what each pair of them can do."),
      Duration("heartbeat_interval", options.heartbeat_interval, 10ms, 1min,
               "How often workers send a heartbeat."),
      Duration("worker_timeout", options.worker_timeout, 50ms, 10min,
               "A worker is lost after this long without a heartbeat; at least two intervals."),
      Duration("stuck_after", options.stuck_after, 50ms, 24h,
               "A worker that executes one command of its own for longer is reported as stuck."),
      Duration("session_lease", options.session_lease, 500ms, 24h,
               "A session ends when its client is silent for this long."),
      Duration("collective_timeout", options.collective_timeout, 100ms, 24h,
               "How long a rank waits for its peers in one collective."),
      Size("flow_window_bytes", options.flow_window_bytes, 64 * kKiB, 16 * kGiB,
           "Most bytes of one session's commands on their way to the slowest worker; a client that "
           "is ahead by more waits."),
      Size("max_batch_bytes", options.max_batch_bytes, 64 * kKiB, 2 * kGiB,
           "Largest batch of commands that is accepted from a client."),
      Duration(
          "poll_before_sleep", options.poll_before_sleep, 0us, 100ms,
          "After a message, threads look again at once for this long before they sleep: more is "
          "quicker and costs more of a core."),
  };
}

Settings WorkerSettings(worker::WorkerOptions& options) {
  return {
      Name("cluster", options.cluster,
           "Name of the cluster to join; without one, whichever answers."),
      Required(Endpoint("controller_endpoint", options.controller_endpoint,
                        "The controller's worker_endpoint.")),
      Integer("rank", options.rank, -1, kMaxWorkers - 1,
              "The rank to ask for; -1: the lowest that is free."),
      Choice("rank_from", options.rank_from, {"", "hostname", "slurm", "mpi"},
             "Where the rank comes from instead: hostname (the number at its end, as of a "
             "StatefulSet), slurm (SLURM_PROCID), mpi (what mpirun has set)."),
      Integer("rank_offset", options.rank_offset, 0, kMaxWorkers - 1,
              "What is added to a rank that comes from elsewhere."),
      Choice("device", options.device, {"cpu"}, "Where this worker's tensors live."),
      PathList("module_path", options.module_path,
               "Directories that modules may be loaded from; without any, none can be loaded."),
      Size("arena_bytes", options.arena_bytes, 16 * kMiB, 64 * kTiB,
           "Most memory that this worker's tensors take; it is taken as it is needed."),
      Size("communicator_bytes", options.communicator_bytes, 256 * kKiB, 256 * kMiB,
           "The part of arena_bytes that communicators take, at once: about 10KiB for each; a "
           "session has up to 18 on a worker."),
      Count("max_registers", options.max_registers, 16, size_t{1} << 30,
            "Most live registers of one session."),
      Endpoint("bulk_endpoint", options.bulk_endpoint,
               "Where this worker listens for bulk copies; worker-0's is used by clients. Without "
               "one, a free port at data_address."),
      HttpEndpoint("metrics_endpoint", options.metrics_endpoint,
                   "Where /metrics, /healthz and /readyz are served; without one, nowhere."),
      Text("data_address", options.data_address,
           "Where this worker listens for ranks that share no memory with it: an interface (eth0), "
           "a network (10.1.0.0/16), an address or a name of this host; without one, the address "
           "that the controller is reached from."),
      Text("advertise_address", options.advertise_address,
           "The address or name by which clients reach this worker, where it differs from the one "
           "that it listens at."),
      Choice("plaintext", options.plaintext, {kLoopback, kNetwork}, kPlaintextDoc),
      Duration("join_timeout", options.join_timeout, 100ms, 24h,
               "How long to look for the controller, and to wait for all workers to join."),
      Duration("controller_timeout", options.controller_timeout, 100ms, 24h,
               "A controller that is silent for this long is lost."),
      Duration("controller_grace", options.controller_grace, 0ms, 24h,
               "A worker whose controller is lost keeps its registers for this long while no other "
               "answers; then it exits. 0: it exits at once."),
      Duration("poll_before_sleep", options.poll_before_sleep, 0us, 100ms,
               "After a message, the executing thread looks again at once for this long before it "
               "sleeps."),
  };
}

bool MayUseNetworks(const worker::WorkerOptions& options) { return options.plaintext == kNetwork; }

void CheckController(const controller::ControllerOptions& options,
                     const std::vector<Entry>& entries, const std::string& prefix,
                     Problems& problems) {
  CheckPlaintext(options.plaintext,
                 {{"client_endpoint", options.client_endpoint},
                  {"worker_endpoint", options.worker_endpoint},
                  {"liveness_endpoint", options.liveness_endpoint},
                  {"metrics_endpoint", options.metrics_endpoint}},
                 entries, prefix, problems);
  if (options.worker_timeout >= 2 * options.heartbeat_interval) return;
  const std::string timeout_key = prefix + "worker_timeout";
  const std::string interval_key = prefix + "heartbeat_interval";
  const Entry* timeout = LastOf(entries, timeout_key);
  const Entry* interval = LastOf(entries, interval_key);
  const auto describe = [](const std::string& key, const Entry* entry,
                           std::chrono::microseconds value) {
    return key + " (" + FormatDuration(value) +
           (entry == nullptr ? ", the default)" : ", at " + entry->where + ")");
  };
  // The defaults agree, so at least one of the two is given; the timeout is what depends.
  if (timeout != nullptr) {
    problems.Add(timeout->where,
                 timeout_key + ": \"" + timeout->value.Text() +
                     "\" would lose workers between two heartbeats; allowed: at least " +
                     FormatDuration(2 * options.heartbeat_interval) + ", which is two of " +
                     describe(interval_key, interval, options.heartbeat_interval));
  } else if (interval != nullptr) {
    problems.Add(interval->where,
                 interval_key + ": \"" + interval->value.Text() +
                     "\" would lose workers between two heartbeats; allowed: at most " +
                     FormatDuration(options.worker_timeout / 2) + ", which is half of " +
                     describe(timeout_key, timeout, options.worker_timeout));
  }
}

void CheckWorker(const worker::WorkerOptions& options, const std::vector<Entry>& entries,
                 const std::string& prefix, Problems& problems) {
  CheckPlaintext(options.plaintext,
                 {{"controller_endpoint", options.controller_endpoint},
                  {"bulk_endpoint", options.bulk_endpoint},
                  {"metrics_endpoint", options.metrics_endpoint}},
                 entries, prefix, problems);
}

StatusOr<controller::ControllerOptions> LoadController(const Sources& sources) {
  Problems problems;
  controller::ControllerOptions options;
  const std::string name = NameOf(sources);
  const std::vector<Entry> entries = ReadSources(sources, problems);
  Apply(entries, ControllerSettings(options), name, problems);
  CheckController(options, entries, "", problems);
  LOCKSTEP_RETURN_IF_ERROR(problems.ToStatus());
  return options;
}

StatusOr<worker::WorkerOptions> LoadWorker(const Sources& sources) {
  Problems problems;
  worker::WorkerOptions options;
  const std::vector<Entry> entries = ReadSources(sources, problems);
  Apply(entries, WorkerSettings(options), NameOf(sources), problems);
  CheckWorker(options, entries, "", problems);
  LOCKSTEP_RETURN_IF_ERROR(problems.ToStatus());
  return options;
}

std::string ToYaml(const controller::ControllerOptions& options) {
  controller::ControllerOptions copy = options;
  return ToYaml(ControllerSettings(copy));
}

std::string ToYaml(const worker::WorkerOptions& options) {
  worker::WorkerOptions copy = options;
  return ToYaml(WorkerSettings(copy));
}

}  // namespace lockstep::config
