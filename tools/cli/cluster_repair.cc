#include "tools/cli/cluster_repair.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "runtime/base/rank_text.h"
#include "runtime/client/admin.h"
#include "runtime/client/stall_diagnosis.h"
#include "runtime/control/keys/key_file.h"
#include "services/local/start_again.h"
#include "tools/cli/command_line.h"

namespace lockstep::cli {
namespace {

constexpr char kGiven[] = "given.txt";

// The record of the process that was started for `rank`.
const ProcessRecord* ProcessOf(const ClusterRecord& record, Rank rank) {
  const auto number = static_cast<size_t>(rank) + 1;  // the controller is the first
  return number < record.processes.size() ? &record.processes[number] : nullptr;
}

// Ranks whose worker is lost although the process that was started for them is there, as one that
// is stopped: nothing starts another in its place.
std::vector<Rank> HeldRanks(const ClusterRecord& record, const ClusterStatus& status) {
  std::vector<Rank> ranks;
  for (const Rank rank : status.LostRanks()) {
    const WorkerStatus& worker = status.workers[static_cast<size_t>(rank)];
    const ProcessRecord* const process = ProcessOf(record, rank);
    // Another number: one that was started in its place has yet to join.
    if (worker.may_live && process != nullptr && process->pid == worker.pid && process->IsAlive()) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

// "rank 1 is lost, and its process is there: ...": what to do about them.
std::string WhatHolds(const ClusterRecord& record, const ClusterStatus& status,
                      const std::vector<Rank>& ranks) {
  const bool is_elsewhere = std::any_of(ranks.begin(), ranks.end(), [&](Rank rank) {
    return ProcessOf(record, rank)->role.find(" on ") != std::string::npos;
  });
  std::string text =
      ListRanks(ranks) + (ranks.size() == 1 ? " is lost although its process is there"
                                            : " are lost although their processes "
                                              "are there");
  if (is_elsewhere) {
    return text + ", on another host: `lockstep down " + record.name + "`, and start it anew";
  }
  return text + ": " + AdviceFor(status, Blocker::Kind::kLost, ranks);
}

// That a cluster runs; first what is in the way of a worker of it that is lost.
Status AlreadyRuns(const ClusterRecord& record) {
  const StatusOr<ClusterStatus> status =
      GetClusterStatus(record.controller, std::chrono::seconds(1));
  const std::vector<Rank> held = status.ok() ? HeldRanks(record, *status) : std::vector<Rank>();
  const std::string first = held.empty() ? "" : WhatHolds(record, *status, held) + ". Otherwise ";
  return AlreadyExists(first, "a cluster \"", record.name, "\" already runs (", record.workers,
                       " workers, controller pid ", record.processes.front().pid,
                       "); stop it with `lockstep down ", record.name,
                       "`, or choose another --name");
}

// One line of a configuration: "workers: 4".
struct Row {
  std::string key;
  std::string value;
};

std::vector<Row> RowsOf(const std::string& text) {
  std::vector<Row> rows;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const size_t colon = std::min(line.find(": "), line.size());
    rows.push_back({line.substr(0, colon), line.substr(std::min(colon + 2, line.size()))});
  }
  return rows;
}

// "workers: 8, not 4", ...: what `given` has that `kept` has not, in its order; then what it lacks.
// The values of keys are not told.
std::string Difference(const std::string& given, const std::string& kept) {
  constexpr size_t kMost = 3;
  const std::vector<Row> was = RowsOf(kept);
  const std::vector<Row> is = RowsOf(given);
  std::vector<std::string> differences;
  const auto find = [](const std::vector<Row>& rows, const std::string& key) {
    return std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.key == key; });
  };
  const auto add = [&](const std::string& key, const std::string& now, const std::string& before) {
    const bool is_secret = key.ends_with("key");
    differences.push_back(is_secret ? key : key + ": " + now + ", not " + before);
  };
  for (const Row& row : is) {
    const auto before = find(was, row.key);
    if (before == was.end()) {
      add(row.key, row.value, "the default");
    } else if (before->value != row.value) {
      add(row.key, row.value, before->value);
    }
  }
  for (const Row& row : was) {
    if (find(is, row.key) == is.end()) add(row.key, "the default", row.value);
  }
  std::string text;
  for (size_t i = 0; i < differences.size() && i < kMost; ++i) {
    text += (i == 0 ? "" : "; ") + differences[i];
  }
  return text + (differences.size() > kMost ? "; ..." : "");
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

// At once, if nothing but processes that hold a lost rank is in the way.
Status CheckNothingHolds(const ClusterRecord& record, const ClusterStatus& status) {
  const std::vector<Rank> held = HeldRanks(record, status);
  const auto ready =
      std::count_if(status.workers.begin(), status.workers.end(),
                    [](const WorkerStatus& worker) { return worker.state == WorkerState::kReady; });
  const auto joined = static_cast<size_t>(std::count_if(
      status.workers.begin(), status.workers.end(),
      [](const WorkerStatus& worker) { return worker.state == WorkerState::kJoining; }));
  if (held.empty() || held.size() + static_cast<size_t>(ready) + joined < status.workers.size()) {
    return OkStatus();
  }
  return FailedPrecondition("what had ended of \"", record.name, "\" runs again, but ",
                            WhatHolds(record, status, held));
}

Status WaitUntilWhole(const ClusterRecord& record, Deadline deadline) {
  constexpr std::chrono::milliseconds kAnswer{200};
  constexpr std::chrono::milliseconds kPause{20};
  while (true) {
    const StatusOr<ClusterStatus> status = GetClusterStatus(record.controller, kAnswer);
    if (status.ok() && status->IsReady()) return OkStatus();
    if (status.ok()) LOCKSTEP_RETURN_IF_ERROR(CheckNothingHolds(record, *status));
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
  constexpr unsigned kOwnerOnly = 0600;  // keys may be among it
  return control::WriteFileWhole((std::filesystem::path(directory) / kGiven).string(),
                                 local::ToText(cluster), kOwnerOnly,
                                 control::AfterCrash::kAnything);  // which ends the cluster, too
}

Status CheckIsAsGiven(const ClusterRecord& record, const local::ClusterOptions& cluster) {
  std::ifstream file(std::filesystem::path(record.directory) / kGiven);
  std::ostringstream kept;
  kept << file.rdbuf();
  const std::string hint = "`lockstep up --name " + record.name +
                           "` starts again what has ended of it, as it was; for another one, "
                           "`lockstep down " +
                           record.name + "` first";
  if (!file || kept.str().empty()) {
    return UsageError("the cluster \"", record.name,
                      "\" still runs, and it is not known what it was started with; ", hint);
  }
  const std::string given = local::ToText(cluster);
  if (given == kept.str()) return OkStatus();
  return UsageError("the cluster \"", record.name,
                    "\" still runs, with another configuration than this one (",
                    Difference(given, kept.str()), "); ", hint);
}

StatusOr<std::vector<ProcessRecord>> MakeWholeAgain(ClusterRecord& record, Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<ProcessRecord> started, StartEndedProcesses(record));
  LOCKSTEP_RETURN_IF_ERROR(WaitUntilWhole(record, deadline));
  return started;
}

}  // namespace lockstep::cli
