#include "tools/cli/logs/log_place.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "tools/cli/exit_code.h"
#include "tools/text/format.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kDefaultName[] = "lockstep";

Status NotStartedHere(const std::string& endpoint) {
  return NotFound(
      "the cluster at ", endpoint,
      " was not started by `lockstep up` on this host, so its services log to wherever who has"
      " started them says: `journalctl -u UNIT`, `docker logs CONTAINER`, `kubectl logs POD`;"
      " `lockstep status --connect ",
      endpoint, "` tells on which hosts they run");
}

std::string WorkerLog(Rank rank) { return "worker-" + std::to_string(rank) + ".log"; }

// A start that has failed leaves no record, but what its services have said.
StatusOr<ClusterRecord> WithoutRecord(const std::string& name) {
  ClusterRecord cluster;
  cluster.name = name;
  cluster.directory = DefaultRunDirectory(name);
  std::error_code error;
  while (fs::exists(cluster.directory + "/" + WorkerLog(cluster.workers), error)) ++cluster.workers;
  if (cluster.workers > 0 || fs::exists(cluster.directory + "/controller.log", error)) {
    return cluster;
  }
  return WithExitCode(
      NotFound("no cluster \"", name,
               "\" has left logs on this host (`lockstep down` removes them); ",
               "a cluster that `lockstep up` has not started logs to wherever who has started it"
               " says: `journalctl -u UNIT`, `docker logs CONTAINER`, `kubectl logs POD`"),
      ExitCode::kUnreachable);
}

StatusOr<ClusterRecord> ByName(const std::string& name) {
  const Status valid = CheckClusterName(name);
  if (!valid.ok()) return WithExitCode(valid, ExitCode::kUsage);
  LOCKSTEP_ASSIGN_OR_RETURN(std::optional<ClusterRecord> record, ReadRecord(name));
  return record.has_value() ? *std::move(record) : WithoutRecord(name);
}

StatusOr<ClusterRecord> ByEndpoint(const std::string& endpoint) {
  LOCKSTEP_ASSIGN_OR_RETURN(const RecordList records, ListRecords());
  for (const ClusterRecord& record : records.clusters) {
    if (record.controller.endpoint == endpoint) return record;
  }
  return NotStartedHere(endpoint);
}

StatusOr<ClusterRecord> TheOnlyOne() {
  LOCKSTEP_ASSIGN_OR_RETURN(RecordList records, ListRecords());
  for (const Status& unreadable : records.unreadable) text::Warn(Message(unreadable));
  std::vector<ClusterRecord>& all = records.clusters;
  // Those that run come before those that have ended.
  const auto dead = std::stable_partition(
      all.begin(), all.end(), [](const ClusterRecord& record) { return record.IsAlive(); });
  if (dead != all.begin()) all.erase(dead, all.end());
  std::string names;
  for (const ClusterRecord& record : all) {
    if (record.name == kDefaultName || all.size() == 1) return record;
    names += (names.empty() ? "" : ", ") + record.name;
  }
  if (all.empty()) return WithoutRecord(kDefaultName);
  return UsageError("several clusters have logs on this host; choose one with --name: ", names);
}

}  // namespace

StatusOr<ClusterRecord> FindLogs(const std::string& endpoint, const std::string& name) {
  if (!endpoint.empty()) return ByEndpoint(endpoint);
  if (!name.empty()) return ByName(name);
  const char* const from_environment = std::getenv("LOCKSTEP_ENDPOINT");
  if (from_environment != nullptr && *from_environment != '\0') return ByEndpoint(from_environment);
  return TheOnlyOne();
}

StatusOr<std::vector<LogSource>> SourcesOf(const ClusterRecord& cluster, std::optional<Rank> rank,
                                           bool controller) {
  if (rank.has_value() && *rank >= cluster.workers) {
    return UsageError("the cluster \"", cluster.name, "\" has no rank ", *rank, ", but ",
                      text::Plural(static_cast<uint64_t>(cluster.workers), "worker"));
  }
  std::vector<LogSource> sources;
  if (!rank.has_value()) {
    sources.push_back({"controller", cluster.directory + "/controller.log"});
  }
  for (Rank worker = 0; worker < cluster.workers && !controller; ++worker) {
    if (rank.has_value() && worker != *rank) continue;
    sources.push_back(
        {"worker-" + std::to_string(worker), cluster.directory + "/" + WorkerLog(worker)});
  }
  return sources;
}

}  // namespace lockstep::cli
