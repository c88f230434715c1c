#include "services/controller/settings.h"

#include <chrono>
#include <cstddef>

#include "runtime/base/quantity.h"
#include "services/config/endpoint.h"
#include "services/config/service_settings.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;

constexpr size_t kKiB = size_t{1} << 10;
constexpr size_t kGiB = size_t{1} << 30;

}  // namespace

config::Settings ControllerSettings(ControllerOptions& options) {
  using namespace config;  // the kinds of rows
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
      MetricsEndpoint(options.metrics_endpoint),
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
      RefusedPlaintext(),
      LogLevel(options.log_level),
      LogFormat(options.log_format),
      Choice(
          "communicator", options.communicator,
          {"auto", "shm", "tcp", "gloo", "mpi", "shm+gloo", "shm+mpi"},
          "What connects the workers: shm (they map each other's memory), tcp or gloo (a "
          "network), mpi (mpirun has started them), shm+gloo or shm+mpi (shm where they can, the "
          "other between), or auto: shm and tcp, by what each pair of them can do."),
      Text("replacement_hint", options.replacement_hint,
           "What errors, `status` and `why` say of how a lost worker is replaced in this cluster; "
           "{rank} in it is the rank."),
      Duration("heartbeat_interval", options.heartbeat_interval, 10ms, 1min,
               "How often workers send a heartbeat."),
      Duration("worker_timeout", options.worker_timeout, 50ms, 10min,
               "A worker is lost after this long without a heartbeat; at least two intervals."),
      Duration("stuck_after", options.stuck_after, 50ms, 24h,
               "A worker that executes one command of its own for longer, and for longer than its "
               "function takes, is stuck."),
      Duration("session_lease", options.session_lease, 500ms, 24h,
               "A session ends when its client is silent for this long."),
      Duration("collective_timeout", options.collective_timeout, 100ms, 24h,
               "How long a rank waits for its peers in one collective."),
      Size("flow_window_bytes", options.flow_window_bytes, 64 * kKiB, 16 * kGiB,
           "Most bytes of one session's commands on their way to the slowest worker; a client that "
           "is ahead by more waits."),
      Size("max_batch_bytes", options.max_batch_bytes, 64 * kKiB, 2 * kGiB,
           "Largest batch of commands that is accepted from a client."),
      Choice("fragments", options.fragments, {"off", "operator", "client"},
             "Whose fragments the workers compile and execute, which are native code: those of "
             "operators, of all clients, or nobody's (off). Where no keys are asked for, each "
             "client counts as an operator."),
      Integer("max_sessions_per_key", options.max_sessions_per_key, 1, 4096,
              "Most sessions of one key's owner at a time, where keys are asked for."),
      Choice(
          "command_rings", options.command_rings, {"auto", "off", "on"},
          "Whether commands reach workers, and clients without keys the controller, through memory "
          "that they share with the controller, where they run on its host as the same user and "
          "in the same network (containers of one pod do); all others by socket. With on, it is an "
          "error if the kernel has no such memory (Linux 5.1); whether a worker must have it, its "
          "own setting says."),
      Integer("relays_from", options.relays_from, 0, kMaxWorkers,
              "With so many workers or more, those that share no memory with the controller get "
              "commands through others that pass them on, and answer likewise; 0: never."),
      Integer("relay_fan_out", options.relay_fan_out, 2, 256,
              "To how many workers the controller, and each worker, then passes commands on."),
      Duration(
          "poll_before_sleep", options.poll_before_sleep, 0us, 100ms,
          "After a message, threads look again at once for this long before they sleep: more is "
          "quicker and costs more of a core."),
  };
}

config::Settings DescribeSettings() {
  ControllerOptions options;
  return config::Described(ControllerSettings(options));
}

bool NeedsKeys(const ControllerOptions& options) {
  return !config::StaysOnThisHost(options.client_endpoint) ||
         !config::StaysOnThisHost(options.worker_endpoint) ||
         !config::StaysOnThisHost(options.liveness_endpoint) ||
         !config::StaysOnThisHost(options.metrics_endpoint);
}

void CheckKeys(const ControllerOptions& options, const std::vector<config::Entry>& entries,
               const std::string& prefix, config::Problems& problems) {
  config::CheckBothOrNone("key", options.key, "allowed_keys", options.allowed_keys, entries, prefix,
                          problems);
}

void CheckTimes(const ControllerOptions& options, const std::vector<config::Entry>& entries,
                const std::string& prefix, config::Problems& problems) {
  if (options.worker_timeout >= 2 * options.heartbeat_interval) return;
  const std::string timeout_key = prefix + "worker_timeout";
  const std::string interval_key = prefix + "heartbeat_interval";
  const config::Entry* timeout = config::LastOf(entries, timeout_key);
  const config::Entry* interval = config::LastOf(entries, interval_key);
  const auto describe = [](const std::string& key, const config::Entry* entry,
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

StatusOr<ControllerOptions> LoadOptions(const config::Sources& sources) {
  config::Problems problems;
  ControllerOptions options;
  const std::string name = config::NameOf(sources);
  const std::vector<config::Entry> entries = config::ReadSources(sources, problems);
  config::Apply(entries, ControllerSettings(options), name, problems);
  CheckTimes(options, entries, "", problems);
  CheckKeys(options, entries, "", problems);
  if (options.key.empty()) {
    config::CheckNeedsKeys({{"client_endpoint", options.client_endpoint},
                            {"worker_endpoint", options.worker_endpoint},
                            {"liveness_endpoint", options.liveness_endpoint},
                            {"metrics_endpoint", options.metrics_endpoint}},
                           "\"key: FILE\" and \"allowed_keys: FILE\"", entries, problems);
  }
  LOCKSTEP_RETURN_IF_ERROR(problems.ToStatus());
  return options;
}

std::string ToYaml(const ControllerOptions& options) {
  ControllerOptions copy = options;
  return config::ToYaml(ControllerSettings(copy));
}

}  // namespace lockstep::controller
