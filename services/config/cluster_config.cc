#include "services/config/cluster_config.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "services/config/yaml.h"

namespace lockstep::config {
namespace {

constexpr std::string_view kRanks = "ranks";
constexpr std::array kKinds = {FileKind::kCluster, FileKind::kController, FileKind::kWorker};

// A service's table as a section of the cluster's: `decided` names the keys that are not the
// section's to give, and nothing is required, for what is missing is chosen at the start.
Settings ServiceSection(std::string_view section, Settings settings,
                        const std::set<std::string>& decided, const std::string& reason) {
  for (Setting& setting : settings) {
    setting.required = false;
    if (decided.count(setting.key) != 0) setting = Refused(setting.key, reason);
  }
  return Section(section, std::move(settings));
}

Settings WorkerSection(std::string_view section, worker::WorkerOptions& options) {
  return ServiceSection(section, WorkerSettings(options),
                        {"cluster", "controller_endpoint", "rank", "rank_from", "rank_offset"},
                        "cannot be given here: each worker gets it from the cluster");
}

bool IsForRank(const Entry& entry) {
  return entry.key == kRanks || entry.key.rfind(std::string(kRanks) + ".", 0) == 0;
}

// Splits "ranks.3.device" into 3; -1 if there is no such rank.
int RankOf(const Entry& entry, int workers) {
  const size_t begin = kRanks.size() + 1;
  if (entry.key.size() <= begin) return -1;
  const size_t end = entry.key.find('.', begin);
  const StatusOr<int64_t> rank = ParseInteger(
      std::string_view(entry.key).substr(begin, end == std::string::npos ? end : end - begin));
  if (!rank.ok() || *rank < 0 || *rank >= workers) return -1;
  return static_cast<int>(*rank);
}

// Applies the `ranks` section to options.ranks.
void ApplyRanks(const std::vector<Entry>& entries, ClusterOptions& options, Problems& problems) {
  std::set<int> ranks;
  for (const Entry& entry : entries) {
    const int rank = RankOf(entry, options.workers);
    if (rank >= 0) {
      ranks.insert(rank);
    } else if (entry.key != kRanks || entry.value.form != RawValue::Form::kNothing) {
      problems.Add(entry.where, entry.key + ": no such rank; allowed: ranks.0 to ranks." +
                                    std::to_string(options.workers - 1));
    }
  }
  for (const int rank : ranks) {
    std::vector<Entry> own;
    std::copy_if(entries.begin(), entries.end(), std::back_inserter(own),
                 [&](const Entry& entry) { return RankOf(entry, options.workers) == rank; });
    const std::string section = std::string(kRanks) + "." + std::to_string(rank);
    Apply(own, WorkerSection(section, options.ranks[rank]), section, problems);
    CheckWorker(options.ranks[rank], own, section + ".", problems);
  }
}

}  // namespace

// The default of a worker on its own is a port; in a cluster on one host it is a socket file.
ClusterOptions::ClusterOptions() { worker.bulk_endpoint.clear(); }

Settings ClusterSettings(ClusterOptions& options) {
  Settings all = {
      Name("cluster", options.cluster, "Name of the cluster, and of its run directory."),
      Integer("workers", options.workers, 1, kMaxWorkers, "Number of worker processes."),
  };
  for (Setting& setting :
       ServiceSection("controller", ControllerSettings(options.controller), {"cluster", "workers"},
                      "cannot be given here: it is the key of that name at the top")) {
    all.push_back(std::move(setting));
  }
  for (Setting& setting : WorkerSection("worker", options.worker))
    all.push_back(std::move(setting));
  return all;
}

StatusOr<ClusterOptions> LoadCluster(const Sources& sources) {
  Problems problems;
  ClusterOptions options;
  const std::string name = sources.file.empty() ? "settings" : sources.file;
  const std::vector<Entry> entries = ReadSources(sources, problems);
  std::vector<Entry> common;
  std::vector<Entry> by_rank;
  std::partition_copy(entries.begin(), entries.end(), std::back_inserter(by_rank),
                      std::back_inserter(common), IsForRank);
  Apply(common, ClusterSettings(options), name, problems);
  CheckController(options.controller, entries, "controller.", problems);
  CheckWorker(options.worker, entries, "worker.", problems);

  options.controller.cluster = options.cluster;
  options.controller.workers = options.workers;
  options.worker.cluster = options.cluster;
  options.ranks.assign(static_cast<size_t>(options.workers), options.worker);
  for (int rank = 0; rank < options.workers; ++rank) options.ranks[rank].rank = rank;
  ApplyRanks(by_rank, options, problems);
  LOCKSTEP_RETURN_IF_ERROR(problems.ToStatus());
  return options;
}

std::string_view Name(FileKind kind) {
  switch (kind) {
    case FileKind::kCluster:
      return "cluster";
    case FileKind::kController:
      return "controller";
    case FileKind::kWorker:
      return "worker";
  }
  return "?";
}

StatusOr<FileKind> ParseFileKind(std::string_view name) {
  for (const FileKind kind : kKinds) {
    if (Name(kind) == name) return kind;
  }
  return InvalidArgument("\"", name, "\" is no kind of file; allowed: cluster, controller, worker");
}

Settings Describe(FileKind kind) {
  // The rows borrow their options, and documentation uses neither store nor show.
  ClusterOptions cluster;
  controller::ControllerOptions controller;
  worker::WorkerOptions worker;
  Settings settings;
  switch (kind) {
    case FileKind::kCluster:
      settings = ClusterSettings(cluster);
      break;
    case FileKind::kController:
      settings = ControllerSettings(controller);
      break;
    case FileKind::kWorker:
      settings = WorkerSettings(worker);
      break;
  }
  for (Setting& setting : settings) {
    setting.store = nullptr;
    setting.show = nullptr;
  }
  return settings;
}

StatusOr<FileKind> GuessFileKind(const std::string& path) {
  Problems problems;
  const std::vector<Entry> entries = ReadYamlFile(path, problems);
  LOCKSTEP_RETURN_IF_ERROR(problems.ToStatus());
  FileKind best = FileKind::kCluster;
  long most = 0;
  for (const FileKind kind : kKinds) {
    const Settings settings = Describe(kind);
    const long known = std::count_if(entries.begin(), entries.end(), [&](const Entry& entry) {
      if (kind == FileKind::kCluster && IsForRank(entry)) return true;
      return std::any_of(settings.begin(), settings.end(),
                         [&](const Setting& setting) { return setting.key == entry.key; });
    });
    if (known > most) {
      most = known;
      best = kind;
    }
  }
  if (most == 0) {
    return InvalidArgument(path, ": has no key of a cluster, controller or worker file");
  }
  return best;
}

Status ValidateFile(FileKind kind, const std::string& path) {
  const Sources sources{path, {}};
  switch (kind) {
    case FileKind::kCluster:
      return LoadCluster(sources).status();
    case FileKind::kController:
      return LoadController(sources).status();
    case FileKind::kWorker:
      return LoadWorker(sources).status();
  }
  return Internal("unknown kind of file");
}

}  // namespace lockstep::config
