#include "services/config/service_config.h"

#include <utility>

#include "runtime/base/device.h"
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
Status CheckSha256(const std::string& text) {
  const bool is_one =
      text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (is_one) return OkStatus();
  return InvalidArgument("\"", text,
                         "\" is no SHA-256 in lower-case hexadecimal, as sha256sum "
                         "prints it");
}

Setting AddressForOthers(const std::string& key, std::string& field, const std::string& doc) {
  return Checked(key, "text", "an address or a name, no wildcard", field, doc,
                 [](const std::string& text) -> Status {
                   if (!IsWildcard(text)) return OkStatus();
                   return InvalidArgument(
                       "\"", text, "\" leads nobody here: it stands for all addresses of a host");
                 });
}

constexpr char kPlaintextReason[] =
    "is no setting any more: messages between hosts are encrypted, with keys (key, allowed_keys, "
    "controller_key); what ranks exchange is not, see data_plaintext of workers";

// Endpoints that leave this host, although there are no keys. `lines`: what to add.
void CheckNeedsKeys(const std::vector<std::pair<std::string, std::string>>& endpoints,
                    const std::string& lines, const std::vector<Entry>& entries,
                    const std::string& prefix, Problems& problems) {
  for (const auto& [key, endpoint] : endpoints) {
    const Entry* const entry = LastOf(entries, prefix + key);
    if (StaysOnThisHost(endpoint) || entry == nullptr) continue;
    std::string problem = prefix + key;
    problem += ": \"" + endpoint;
    problem +=
        "\" is not on this host: without keys only loopback (127.0.0.0/8, [::1], localhost), "
        "ipc and inproc are allowed; add the lines ";
    problem += lines;
    problem += " (`lockstep keys new` makes keys)";
    problems.Add(entry->where, problem);
  }
}

// Of two settings that belong together, one alone is a mistake.
void CheckBothOrNone(const std::string& one, const std::string& one_value, const std::string& other,
                     const std::string& other_value, const std::vector<Entry>& entries,
                     const std::string& prefix, Problems& problems) {
  if (one_value.empty() == other_value.empty()) return;
  const std::string& given = one_value.empty() ? other : one;
  const Entry* const entry = LastOf(entries, prefix + given);
  if (entry == nullptr) return;
  problems.Add(entry->where, prefix + given + ": given without " + prefix +
                                 (one_value.empty() ? one : other) + ", which belongs to it");
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
                   "Where /metrics, /startupz, /healthz, /readyz and /idlez are served; without "
                   "one, nowhere."),
      AddressForOthers(
          "advertise_address", options.advertise_address,
          "The address or name by which others reach this controller, where it differs from the "
          "one that it listens at."),
      SecretKeyFile("key", options.key,
                    "This controller's secret key. With it, tcp endpoints are encrypted and ask "
                    "for keys; without it, only this host is reachable."),
      FilePath("allowed_keys", options.allowed_keys,
               "The public keys that may come in, their roles and names; read again when it "
               "changes. Belongs to key."),
      Refused("plaintext", kPlaintextReason),
      Choice("log_level", options.log_level, {"debug", "info", "warning", "error"},
             "The least that is logged."),
      Choice("log_format", options.log_format, {"text", "json"},
             "One line an event, for people or for programs."),
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
      Integer("max_sessions_per_key", options.max_sessions_per_key, 1, 4096,
              "Most sessions of one key's owner at a time, where keys are asked for."),
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
      Integer(
          "rank_offset", options.rank_offset, 0, kMaxWorkers - 1,
          "What is added to a rank that comes from elsewhere; where any will do, the lowest that "
          "this worker takes."),
      Checked(
          "device", "device", "cpu, cuda or cuda:NUMBER", options.device,
          "Where this worker's tensors are made: in host memory (cpu), on a GPU of this host that "
          "no other worker has (cuda), or on this one (cuda:1).",
          [](const std::string& text) { return ParseDevice(text).status(); }),
      Size("device_memory_bytes", options.device_memory_bytes, 0, 64 * kTiB,
           "Most bytes that tensors on the GPU have; 0B: as many as there are."),
      Size("registered_memory_bytes", options.registered_memory_bytes, 0, 64 * kTiB,
           "So much of the GPU's memory is registered with NCCL, and tensors have it first: what "
           "they send needs no copy on its way; 0B: none."),
      Text("nccl_library", options.nccl_library,
           "The file to load NCCL from; without one, libnccl.so.2, wherever the dynamic linker "
           "finds "
           "it."),
      PathList("module_path", options.module_path,
               "Directories that modules may be loaded from; without any, none can be loaded."),
      TextList("module_sha256", options.module_sha256,
               "SHA-256 digests, 64 hexadecimal digits each",
               "If there are any, only modules with one of these digests are loaded.", CheckSha256),
      Size("arena_bytes", options.arena_bytes, 16 * kMiB, 64 * kTiB,
           "Most memory that this worker's tensors take; it is taken as it is needed."),
      Size("communicator_bytes", options.communicator_bytes, 256 * kKiB, 256 * kMiB,
           "The part of arena_bytes that communicators take, at once: about 10KiB for each; a "
           "session has up to 18 on a worker."),
      Count("max_registers", options.max_registers, 16, size_t{1} << 30,
            "Most live registers of one session."),
      Size("max_session_bytes", options.max_session_bytes, 0, 64 * kTiB,
           "Most bytes that the values in one session's registers take on this worker; 0B: as many "
           "as arena_bytes."),
      Count("max_modules", options.max_modules, 0, size_t{1} << 20,
            "Most modules that one session may load."),
      Endpoint("bulk_endpoint", options.bulk_endpoint,
               "Where this worker listens for bulk copies; worker-0's is used by clients. Without "
               "one, a free port at data_address."),
      HttpEndpoint("metrics_endpoint", options.metrics_endpoint,
                   "Where /metrics, /startupz, /healthz, /readyz and /idlez are served; without "
                   "one, nowhere."),
      Text("data_address", options.data_address,
           "Where this worker listens for ranks that share no memory with it: an interface (eth0), "
           "a network (10.1.0.0/16), an address or a name of this host; without one, the address "
           "that the controller is reached from."),
      AddressForOthers(
          "advertise_address", options.advertise_address,
          "The address or name by which clients reach this worker, where it differs from the one "
          "that it listens at."),
      SecretKeyFile("key", options.key,
                    "This worker's secret key, for a controller that asks for "
                    "keys."),
      PublicKeys("controller_key", options.controller_key,
                 "The controller's public key, by which this worker knows it. Belongs to key."),
      Choice("data_plaintext", options.data_plaintext, {kLoopback, kNetwork},
             "How far tensors may go from rank to rank where nobody encrypts them and nobody asks "
             "for keys (gloo, MPI): loopback (this host), or network (choose it only where nobody "
             "else is)."),
      Choice("after_shutdown", options.after_shutdown, {"exit", "rejoin"},
             "What a worker does once its controller was stopped in order: exit, or look for "
             "another one, with nothing in its registers (rejoin)."),
      Refused("plaintext", kPlaintextReason),
      Choice("log_level", options.log_level, {"debug", "info", "warning", "error"},
             "The least that is logged."),
      Choice("log_format", options.log_format, {"text", "json"},
             "One line an event, for people or for programs."),
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

bool MayUseNetworks(const worker::WorkerOptions& options) {
  return options.data_plaintext == kNetwork;
}

bool NeedsKeys(const controller::ControllerOptions& options) {
  return !StaysOnThisHost(options.client_endpoint) || !StaysOnThisHost(options.worker_endpoint) ||
         !StaysOnThisHost(options.liveness_endpoint) || !StaysOnThisHost(options.metrics_endpoint);
}

void CheckControllerKeys(const controller::ControllerOptions& options,
                         const std::vector<Entry>& entries, const std::string& prefix,
                         Problems& problems) {
  CheckBothOrNone("key", options.key, "allowed_keys", options.allowed_keys, entries, prefix,
                  problems);
}

void CheckController(const controller::ControllerOptions& options,
                     const std::vector<Entry>& entries, const std::string& prefix,
                     Problems& problems) {
  if (options.worker_timeout >= 2 * options.heartbeat_interval) return;
  const std::string timeout_key = prefix + "worker_timeout";
  const std::string interval_key = prefix + "heartbeat_interval";
  const Entry* timeout = LastOf(entries, timeout_key);
  const Entry* interval = LastOf(entries, interval_key);
  const auto describe = [](const std::string& key, const Entry* entry,
                           std::chrono::microseconds value) {
    return key + " (" + ExactDuration(value) +
           (entry == nullptr ? ", the default)" : ", at " + entry->where + ")");
  };
  // The defaults agree, so at least one of the two is given; the timeout is what depends.
  if (timeout != nullptr) {
    problems.Add(timeout->where,
                 timeout_key + ": \"" + timeout->value.Text() +
                     "\" would lose workers between two heartbeats; allowed: at least " +
                     ExactDuration(2 * options.heartbeat_interval) + ", which is two of " +
                     describe(interval_key, interval, options.heartbeat_interval));
  } else if (interval != nullptr) {
    problems.Add(interval->where,
                 interval_key + ": \"" + interval->value.Text() +
                     "\" would lose workers between two heartbeats; allowed: at most " +
                     ExactDuration(options.worker_timeout / 2) + ", which is half of " +
                     describe(timeout_key, timeout, options.worker_timeout));
  }
}

void CheckWorker(const worker::WorkerOptions& options, const std::vector<Entry>& entries,
                 const std::string& prefix, Problems& problems) {
  CheckBothOrNone("key", options.key, "controller_key", options.controller_key, entries, prefix,
                  problems);
}

StatusOr<controller::ControllerOptions> LoadController(const Sources& sources) {
  Problems problems;
  controller::ControllerOptions options;
  const std::string name = NameOf(sources);
  const std::vector<Entry> entries = ReadSources(sources, problems);
  Apply(entries, ControllerSettings(options), name, problems);
  CheckController(options, entries, "", problems);
  CheckControllerKeys(options, entries, "", problems);
  if (options.key.empty()) {
    CheckNeedsKeys({{"client_endpoint", options.client_endpoint},
                    {"worker_endpoint", options.worker_endpoint},
                    {"liveness_endpoint", options.liveness_endpoint},
                    {"metrics_endpoint", options.metrics_endpoint}},
                   "\"key: FILE\" and \"allowed_keys: FILE\"", entries, "", problems);
  }
  LOCKSTEP_RETURN_IF_ERROR(problems.ToStatus());
  return options;
}

StatusOr<worker::WorkerOptions> LoadWorker(const Sources& sources) {
  Problems problems;
  worker::WorkerOptions options;
  const std::vector<Entry> entries = ReadSources(sources, problems);
  Apply(entries, WorkerSettings(options), NameOf(sources), problems);
  CheckWorker(options, entries, "", problems);
  if (options.key.empty()) {
    CheckNeedsKeys({{"controller_endpoint", options.controller_endpoint},
                    {"bulk_endpoint", options.bulk_endpoint},
                    {"metrics_endpoint", options.metrics_endpoint}},
                   "\"key: FILE\" and \"controller_key: KEY\"", entries, "", problems);
  }
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
