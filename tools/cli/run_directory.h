// Where clusters on this host keep their sockets and logs, and the records by which they are found.
//
//     ${XDG_RUNTIME_DIR:-/tmp}/lockstep-UID/     0700, ours; everything below is trusted
//         records/NAME.json                      the cluster's record
//         locks/NAME.lock                        held while `up` and `down` work on the cluster
//         run/NAME/                              sockets, logs, generated configuration
//
// Three folders, because a name may end in ".json" or ".lock" itself.
//
// Threads: any. Errors: kPermissionDenied a directory that others could write to.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/client/address.h"

namespace lockstep::cli {

// A process that outlives its parent. The start time tells it from a later one with the same id.
struct ProcessRecord {
  std::string role;  // "controller", "worker-0", ...
  pid_t pid = 0;
  uint64_t start_ticks = 0;  // since boot, from /proc/PID/stat

  bool IsAlive() const;
};

// The record of a process that runs now; kNotFound if there is none.
StatusOr<ProcessRecord> RecordProcess(const std::string& role, pid_t pid);

struct ClusterRecord {
  std::string name;
  ControllerAddress controller;
  std::string endpoint_elsewhere;  // where clients of other hosts connect; empty: nowhere
  std::string directory;           // its run directory
  int workers = 0;
  // Which ranks run on which host, in their order; a host may come more than once.
  std::vector<std::pair<std::string, std::vector<Rank>>> hosts;
  std::vector<ProcessRecord> processes;  // the controller first

  bool IsAlive() const;  // any of its processes is
  bool HasController() const;
  // Its processes on this host that are alive, without the controller.
  int CountAliveWorkers() const;
  bool HasOtherHosts() const;
  // OK if the controller lives. Else that it has ended, and what to do about that: exit code 3.
  Status CheckController() const;
};

// The directory of all records. Not made by this call.
std::string RecordDirectory();
// Where the cluster's run directory is if no other is asked for.
std::string DefaultRunDirectory(const std::string& name);

// Makes `path` with mode 0700, and above it what is missing. One that exists must be a real
// directory of ours that no other user may enter.
Status MakePrivateDirectory(const std::string& path);
// The same for DefaultRunDirectory(), and for the directories above it that are ours, too.
Status MakeDefaultRunDirectory(const std::string& name);

// Holds the lock of a name, so that two commands do not start or stop one cluster at once.
class ClusterLock {
 public:
  // kFailedPrecondition at once if another process holds it.
  static StatusOr<ClusterLock> Acquire(const std::string& name);

  ClusterLock(ClusterLock&& other) noexcept;
  ClusterLock& operator=(ClusterLock&&) = delete;
  ~ClusterLock();

 private:
  explicit ClusterLock(int fd) : fd_(fd) {}
  int fd_;
};

Status WriteRecord(const ClusterRecord& record);
// Nothing if there is no cluster of this name, dead or alive.
StatusOr<std::optional<ClusterRecord>> ReadRecord(const std::string& name);

struct RecordList {
  std::vector<ClusterRecord> clusters;  // dead ones too, by name
  // What else lies among the records: which file, what is wrong with it, and what to do.
  std::vector<Status> unreadable;
};
// An error only if there is no list at all.
StatusOr<RecordList> ListRecords();
// Removes the record and the run directory of a cluster that is dead.
Status RemoveCluster(const ClusterRecord& record);

// Lower-case letters, digits, '-', '_' and '.', at most 63, no leading '.': good as a file name.
Status CheckClusterName(const std::string& name);

// Asks the controller to stop all, waits up to `patience` until all processes have ended, and ends
// what is left by SIGTERM, then SIGKILL. Removes the record and the run directory. A cluster that
// is dead already is only removed.
//
// OK if nothing is left, however it ended; `*forced` names the processes that took a signal.
// kDeadlineExceeded: a process survived even SIGKILL; everything is left as it is.
Status StopCluster(const ClusterRecord& record, std::chrono::milliseconds patience,
                   std::string* forced);

}  // namespace lockstep::cli
