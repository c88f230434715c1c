#include "services/local/cluster_config.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include "runtime/base/quantity.h"
#include "services/config/endpoint.h"
#include "services/config/service_settings.h"
#include "services/controller/settings.h"
#include "services/worker/settings.h"

namespace lockstep::local {
namespace {

constexpr std::string_view kRanks = "ranks";

// A service's table as a section of the cluster's: `decided` names the keys that are not the
// section's to give, and nothing is required, for what is missing is chosen at the start.
config::Settings ServiceSection(std::string_view section, config::Settings settings,
                                const std::set<std::string>& decided, const std::string& reason) {
  for (config::Setting& setting : settings) {
    setting.required = false;
    if (decided.count(setting.key) != 0) setting = config::Refused(setting.key, reason);
  }
  return config::Section(section, std::move(settings));
}

config::Settings WorkerSection(std::string_view section, worker::WorkerOptions& options) {
  return ServiceSection(section, worker::WorkerSettings(options),
                        {"cluster", "controller_endpoint", "rank", "rank_from", "rank_offset"},
                        "cannot be given here: each worker gets it from the cluster");
}

// The workers of every host, each starting from `worker`. None: all on this host.
void ApplyHosts(const std::vector<config::Entry>& entries, ClusterOptions& options,
                config::Problems& problems) {
  size_t workers = 0;
  for (const HostItem& item : SplitHosts(entries, problems)) {
    HostOptions host;
    host.program = options.remote_program;
    worker::WorkerOptions worker = options.worker;
    config::Settings table = config::Section(item.section, HostSettings(host));
    for (config::Setting& setting : WorkerSection(item.section, worker)) table.push_back(setting);
    config::Apply(item.entries, table, item.where, problems);
    worker::CheckKeys(worker, item.entries, item.section + ".", problems);
    workers += static_cast<size_t>(host.workers);
    options.hosts.push_back(host);
    if (workers <= config::kMaxWorkers) {
      options.ranks.insert(options.ranks.end(), static_cast<size_t>(host.workers), worker);
    } else {
      problems.Add(item.where, item.section + ".workers: with the hosts before, these are more " +
                                   "than " + std::to_string(config::kMaxWorkers) + " workers");
      return;
    }
  }
}

// The ranks would not be connected, and say so each in its own log.
void CheckPlaintextOfRanks(const ClusterOptions& options, const std::vector<config::Entry>& entries,
                           config::Problems& problems) {
  const bool several = std::any_of(options.hosts.begin(), options.hosts.end(), [&](const auto& h) {
    return h.host != options.hosts.front().host;
  });
  // Where they find the controller on their own host (a tunnel leads to it), they stay there, too.
  if (!several || config::StaysOnThisHost(options.controller.worker_endpoint)) return;
  const auto hosts = std::find_if(entries.begin(), entries.end(), IsForHosts);
  const std::string& chosen = options.controller.communicator;
  const bool can_encrypt = chosen == "auto" || chosen == "shm" || chosen == "tcp";
  for (const worker::WorkerOptions& worker : options.ranks) {
    const bool has_gpu = worker.device != "cpu";
    if (worker::MayUseNetworks(worker, can_encrypt && !has_gpu)) continue;
    std::string why = "worker.data_encryption is off";
    if (!can_encrypt) why = "controller.communicator: " + chosen + " does not encrypt";
    if (has_gpu) why = "NCCL, by which GPUs exchange them, does not encrypt";
    problems.Add(hosts->where,
                 "worker.data_plaintext: rank " + std::to_string(worker.rank) +
                     " may not exchange tensors with other hosts, because " + why +
                     "; in a network that only the cluster uses, set worker.data_plaintext: "
                     "network");
    return;
  }
}

// Where the operator gives a key, all keys are the operator's to give: none are made.
void CheckKeys(const ClusterOptions& options, const std::vector<config::Entry>& entries,
               config::Problems& problems) {
  controller::CheckKeys(options.controller, entries, "controller.", problems);
  const bool has_keys = !options.controller.key.empty();
  if (!has_keys) {
    for (const char* const key : {"worker.key", "operator_key"}) {
      const config::Entry* const entry = config::LastOf(entries, key);
      if (entry == nullptr) continue;
      problems.Add(entry->where, std::string(key) +
                                     ": given without controller.key; give all keys, or none: "
                                     "then they are made at the start");
    }
    return;
  }
  const config::Entry* const key = config::LastOf(entries, "controller.key");
  if (key == nullptr) return;
  const auto asks = [](const std::string& endpoint) { return endpoint.rfind("tcp://", 0) == 0; };
  if (asks(options.controller.client_endpoint) && options.operator_key.empty()) {
    problems.Add(key->where,
                 "operator_key: missing, but required beside controller.key: clients at " +
                     options.controller.client_endpoint + " are asked for keys, `up` is, too");
  }
  if (!asks(options.controller.worker_endpoint)) return;
  for (const worker::WorkerOptions& worker : options.ranks) {
    if (!worker.key.empty()) continue;
    problems.Add(key->where, "worker.key: missing, but required beside controller.key: rank " +
                                 std::to_string(worker.rank) + " is asked for a key at " +
                                 options.controller.worker_endpoint);
    return;
  }
}

// What a cluster over several hosts needs beyond what one host does.
void CheckHosts(const ClusterOptions& options, const std::vector<config::Entry>& entries,
                config::Problems& problems) {
  const config::Entry* const workers = config::LastOf(entries, "workers");
  if (workers != nullptr && options.workers != static_cast<int>(options.ranks.size())) {
    problems.Add(workers->where, "workers: \"" + workers->value.Text() + "\", but the hosts have " +
                                     std::to_string(options.ranks.size()) +
                                     "; leave it out, or change hosts");
  }
  if (!options.HasOtherHosts()) return;
  const auto hosts = std::find_if(entries.begin(), entries.end(), IsForHosts);
  CheckReachable(options.controller, entries, hosts->where, problems);
}

std::vector<std::string> Rows(const config::Settings& settings) {
  std::vector<std::string> rows;
  std::istringstream text(config::ToYaml(settings));
  for (std::string row; std::getline(text, row);) rows.push_back(row);
  return rows;
}

bool IsForRank(const config::Entry& entry) {
  return entry.key == kRanks || entry.key.rfind(std::string(kRanks) + ".", 0) == 0;
}

// Splits "ranks.3.device" into 3; -1 if there is no such rank.
int RankOf(const config::Entry& entry, int workers) {
  const size_t begin = kRanks.size() + 1;
  if (entry.key.size() <= begin) return -1;
  const size_t end = entry.key.find('.', begin);
  const StatusOr<int64_t> rank = ParseInteger(
      std::string_view(entry.key).substr(begin, end == std::string::npos ? end : end - begin));
  if (!rank.ok() || *rank < 0 || *rank >= workers) return -1;
  return static_cast<int>(*rank);
}

// Applies the `ranks` section to options.ranks.
void ApplyRanks(const std::vector<config::Entry>& entries, ClusterOptions& options,
                config::Problems& problems) {
  std::set<int> ranks;
  for (const config::Entry& entry : entries) {
    const int rank = RankOf(entry, options.workers);
    if (rank >= 0) {
      ranks.insert(rank);
    } else if (entry.key != kRanks || entry.value.form != config::RawValue::Form::kNothing) {
      problems.Add(entry.where, entry.key + ": no such rank; allowed: ranks.0 to ranks." +
                                    std::to_string(options.workers - 1));
    }
  }
  for (const int rank : ranks) {
    std::vector<config::Entry> own;
    std::copy_if(
        entries.begin(), entries.end(), std::back_inserter(own),
        [&](const config::Entry& entry) { return RankOf(entry, options.workers) == rank; });
    const std::string section = std::string(kRanks) + "." + std::to_string(rank);
    config::Apply(own, WorkerSection(section, options.ranks[rank]), section, problems);
    worker::CheckKeys(options.ranks[rank], own, section + ".", problems);
  }
}

}  // namespace

ClusterOptions::ClusterOptions()
    : ssh({"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5",
           "-o", "ServerAliveCountMax=3"}) {
  // The default of a worker on its own is a port; in a cluster on one host it is a socket file.
  worker.bulk_endpoint.clear();
}

const HostOptions& ClusterOptions::HostOf(int rank) const {
  static const HostOptions here;
  for (const HostOptions& host : hosts) {
    if (rank < host.workers) return host;
    rank -= host.workers;
  }
  return here;
}

bool ClusterOptions::HasOtherHosts() const {
  return std::any_of(hosts.begin(), hosts.end(),
                     [](const HostOptions& host) { return !host.IsThisHost(); });
}

bool ClusterOptions::NeedsKeys() const {
  return controller::NeedsKeys(controller) || HasOtherHosts();
}

config::Settings ClusterSettings(ClusterOptions& options) {
  config::Settings all = {
      config::Name("cluster", options.cluster, "Name of the cluster, and of its run directory."),
      config::Integer("workers", options.workers, 1, config::kMaxWorkers,
                      "Number of worker processes; with hosts, their workers."),
      config::Documented(
          "hosts", "list", "[]",
          "names, or {host: NAME, workers: N, program: PATH, any setting of a worker}",
          "Where the workers run, in the order of their ranks: on this host (localhost), or "
          "on others, over ssh. Without any, all on this host."),
      config::Command(
          "ssh", options.ssh,
          "What runs a command on another host; the host and the command line are appended."),
      RemoteProgram("remote_program", options.remote_program,
                    "The worker's program on other hosts. A relative path starts where commands "
                    "over ssh do: in the user's home."),
  };
  all.push_back(config::SecretKeyFile(
      "operator_key", options.operator_key,
      "With controller.key: an operator's secret key, which `up`, and `down` and `status` on this "
      "host, use where clients are asked for keys."));
  for (config::Setting& setting : ServiceSection(
           "controller", controller::ControllerSettings(options.controller), {"cluster", "workers"},
           "cannot be given here: it is the key of that name at the top")) {
    all.push_back(std::move(setting));
  }
  for (config::Setting& setting : WorkerSection("worker", options.worker))
    all.push_back(std::move(setting));
  return all;
}

std::string ToText(const ClusterOptions& options) {
  ClusterOptions all = options;  // rows are bound to fields
  std::string text = config::ToYaml(ClusterSettings(all));
  const auto add = [&](const std::string& section, const std::string& row) {
    text += section + "." + row + "\n";
  };
  for (size_t i = 0; i < all.hosts.size(); ++i) {
    for (const std::string& row : Rows(HostSettings(all.hosts[i]))) {
      add("hosts[" + std::to_string(i) + "]", row);
    }
  }
  for (worker::WorkerOptions& rank : all.ranks) {
    worker::WorkerOptions common = options.worker;
    common.rank = rank.rank;
    const std::vector<std::string> usual = Rows(worker::WorkerSettings(common));
    for (const std::string& row : Rows(worker::WorkerSettings(rank))) {
      if (std::find(usual.begin(), usual.end(), row) != usual.end()) continue;
      add("ranks." + std::to_string(rank.rank), row);
    }
  }
  return text;
}

bool IsForHostsOrRanks(const config::Entry& entry) { return IsForHosts(entry) || IsForRank(entry); }

StatusOr<ClusterOptions> LoadCluster(const config::Sources& sources) {
  config::Problems problems;
  ClusterOptions options;
  const std::vector<config::Entry> entries = config::ReadSources(sources, problems);
  std::vector<config::Entry> common;
  std::vector<config::Entry> by_host;
  std::vector<config::Entry> by_rank;
  for (const config::Entry& entry : entries) {
    (IsForHosts(entry) ? by_host : IsForRank(entry) ? by_rank : common).push_back(entry);
  }
  config::Apply(common, ClusterSettings(options), config::NameOf(sources), problems);
  controller::CheckTimes(options.controller, entries, "controller.", problems);
  worker::CheckKeys(options.worker, entries, "worker.", problems);

  options.worker.cluster = options.cluster;
  ApplyHosts(by_host, options, problems);
  if (options.hosts.empty()) {
    options.hosts.push_back({.workers = options.workers});
    options.ranks.assign(static_cast<size_t>(options.workers), options.worker);
  }
  CheckHosts(options, entries, problems);
  options.workers = static_cast<int>(options.ranks.size());
  options.controller.cluster = options.cluster;
  options.controller.workers = options.workers;
  for (int rank = 0; rank < options.workers; ++rank) options.ranks[rank].rank = rank;
  ApplyRanks(by_rank, options, problems);
  CheckPlaintextOfRanks(options, entries, problems);
  CheckKeys(options, entries, problems);
  LOCKSTEP_RETURN_IF_ERROR(problems.ToStatus());
  return options;
}

}  // namespace lockstep::local
