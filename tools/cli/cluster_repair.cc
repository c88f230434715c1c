#include "tools/cli/cluster_repair.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "runtime/base/files.h"
#include "runtime/base/rank_text.h"
#include "runtime/client/admin.h"
#include "services/local/start_again.h"
#include "tools/cli/command_line.h"

namespace lockstep::cli {
namespace {

constexpr char kGiven[] = "given.yaml";

// That a cluster runs; first what is in the way if a worker of it is lost although its process is
// there, as of one that is stopped.
Status AlreadyRuns(const ClusterRecord& record) {
  std::string pids;
  const StatusOr<ClusterStatus> status =
      GetClusterStatus(record.controller, std::chrono::seconds(1));
  const std::vector<Rank> ranks = status.ok() ? status->LostRanks() : std::vector<Rank>();
  for (const Rank rank : ranks) {
    pids += " " + std::to_string(status->workers[static_cast<size_t>(rank)].pid);
  }
  std::ostringstream text;
  if (!ranks.empty()) {
    const bool is_one = ranks.size() == 1;
    text << ListRanks(ranks) << (is_one ? " is" : " are") << " lost although "
         << (is_one ? "its process is" : "their processes are") << " there: `kill -9" << pids
         << "`, and then this command, " << (is_one ? "starts it" : "starts them")
         << " again. Otherwise ";
  }
  text << "a cluster \"" << record.name << "\" already runs (" << record.workers
       << " workers, controller pid " << record.processes.front().pid
       << "); stop it with `lockstep down " << record.name << "`, or choose another --name";
  return AlreadyExists(text.str());
}

std::set<std::string> LinesOf(const std::string& text) {
  std::set<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.insert(line);
  return lines;
}

// "workers: 8", ...: what `given` has and `kept` has not. Keys are nobody's business.
std::string Difference(const std::string& given, const std::string& kept) {
  constexpr size_t kMost = 3;
  const std::set<std::string> known = LinesOf(kept);
  std::string text;
  size_t count = 0;
  for (const std::string& line : LinesOf(given)) {
    if (known.contains(line) || line.find("key") != std::string::npos) continue;
    if (++count > kMost) return text + ", ...";
    text += (text.empty() ? "" : ", ") + line.substr(line.find_first_not_of(' '));
  }
  return text;
}

StatusOr<std::vector<ProcessRecord>> StartEndedProcesses(ClusterRecord& record) {
  std::vector<ProcessRecord> started;
  Status status = OkStatus();
  for (ProcessRecord& process : record.processes) {
    if (process.IsAlive()) continue;
    StatusOr<local::ServiceProcess> again = local::StartAgain(record.directory, process.role);
    status = again.status();
    if (!status.ok()) break;
    StatusOr<ProcessRecord> noted = RecordProcess(process.role, again->pid());
    status = noted.status();
    if (!status.ok()) break;
    process = *std::move(noted);
    started.push_back(process);
    again->child().Release();
  }
  status.Update(WriteRecord(record));
  if (status.ok()) return started;
  return Annotate(status, "the cluster \"" + record.name + "\" cannot be made whole again");
}

Status WaitUntilWhole(const ClusterRecord& record, Deadline deadline) {
  constexpr std::chrono::milliseconds kAnswer{200};
  constexpr std::chrono::milliseconds kPause{20};
  while (true) {
    const StatusOr<ClusterStatus> status = GetClusterStatus(record.controller, kAnswer);
    if (status.ok() && status->IsReady()) return OkStatus();
    if (deadline.Expired()) {
      return DeadlineExceeded(
          "all processes of \"", record.name, "\" run again (the controller is process ",
          record.processes.front().pid, "), but not all workers have joined: ",
          status.ok() ? "`lockstep status --name " + record.name + "` shows which"
                      : Message(status.status()),
          "; their logs are in ", record.directory);
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

StatusOr<std::optional<ClusterRecord>> FindBroken(const std::string& name) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<ClusterRecord> old, ReadRecord(name));
  if (!old.has_value()) return old;
  if (!old->IsAlive()) {
    LOCKSTEP_RETURN_IF_ERROR(RemoveCluster(*old));
    return std::optional<ClusterRecord>();
  }
  if (!old->HasController() || old->CountAliveWorkers() < old->workers) return old;
  return AlreadyRuns(*old);
}

Status KeepConfiguration(const std::string& directory, const local::ClusterOptions& cluster) {
  const std::filesystem::path path = std::filesystem::path(directory) / kGiven;
  std::ofstream file(path);
  file << local::ToText(cluster);
  file.close();
  return file ? OkStatus() : Internal("cannot write ", path.string());
}

Status CheckIsAsGiven(const ClusterRecord& record, const local::ClusterOptions& cluster) {
  const std::filesystem::path path = std::filesystem::path(record.directory) / kGiven;
  std::ifstream file(path);
  std::ostringstream kept;
  kept << file.rdbuf();
  const std::string given = local::ToText(cluster);
  if (given == kept.str()) return OkStatus();
  const std::string difference = Difference(given, kept.str());
  return UsageError(
      "the cluster \"", record.name, "\" still runs, with another configuration than this one",
      difference.empty() ? "" : " (" + difference + ")", "; `lockstep up --name ", record.name,
      "` starts again what has ended of it, as it was; for another one, `", "lockstep down ",
      record.name, "` first");
}

StatusOr<std::vector<ProcessRecord>> MakeWholeAgain(ClusterRecord& record, Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<ProcessRecord> started, StartEndedProcesses(record));
  LOCKSTEP_RETURN_IF_ERROR(WaitUntilWhole(record, deadline));
  return started;
}

}  // namespace lockstep::cli
