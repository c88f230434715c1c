#include "tools/cli/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "nlohmann/json.hpp"
#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "services/local/hosts.h"
#include "tools/cli/command_line.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Another user's is inherited by `su`: that user could put other files in the place of our keys.
bool IsOurDirectory(const char* path) {
  struct stat info {};
  return stat(path, &info) != 0 || info.st_uid == getuid();
}

// The directory that everything of ours is in.
std::string Home() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const bool usable = runtime != nullptr && *runtime == '/' && IsOurDirectory(runtime);
  return std::string(usable ? runtime : "/tmp") + "/lockstep-" + std::to_string(getuid());
}

std::string LockDirectory() { return Home() + "/locks"; }
std::string RecordPath(const std::string& name) { return RecordDirectory() + "/" + name + ".json"; }

// The system makes it at the login, and removes it at the end: one that we made would be another.
Status CheckRuntimeDirectory() {
  const std::string directory = fs::path(Home()).parent_path();
  std::error_code error;
  if (fs::is_directory(directory, error)) return OkStatus();
  return FailedPrecondition("XDG_RUNTIME_DIR is ", directory, ", and there is no such directory; ",
                            "make it (mode 0700), or unset XDG_RUNTIME_DIR, then /tmp is used");
}

// Makes a directory in Home(), and that first.
Status MakeDirectoryAtHome(const std::string& path) {
  LOCKSTEP_RETURN_IF_ERROR(CheckRuntimeDirectory());
  LOCKSTEP_RETURN_IF_ERROR(MakePrivateDirectory(Home()));
  return MakePrivateDirectory(path);
}

// False if there is nothing yet. Records tell where to connect and whom to stop: only our own are
// believed.
StatusOr<bool> HaveRecords() {
  std::error_code error;
  if (!fs::exists(RecordDirectory(), error)) return false;
  LOCKSTEP_RETURN_IF_ERROR(MakeDirectoryAtHome(RecordDirectory()));
  return true;
}

// Field 22 of /proc/PID/stat. Field 2, the command, is in parentheses and may contain anything.
std::optional<uint64_t> StartTicks(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  // Unlike an iterator, this does not throw if the process ends while it is read.
  std::ostringstream content;
  content << file.rdbuf();
  const std::string text = content.str();
  const size_t command_end = text.rfind(')');
  if (command_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(command_end + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) {
    if (!(fields >> field)) return std::nullopt;
    // A zombie has ended; only its parent has not looked yet.
    if (number == 3 && field == "Z") return std::nullopt;
  }
  return std::strtoull(field.c_str(), nullptr, 10);
}

Status NoRecord(const std::string& path, const std::string& why) {
  return Internal(path, " is no record of a cluster (", why, "); remove it");
}

StatusOr<ClusterRecord> ParseRecord(const std::string& path, const std::string& text) {
  try {
    const json root = json::parse(text);
    ClusterRecord record;
    record.name = root.at("name");
    record.controller.endpoint = root.at("endpoint");
    record.controller.key = root.value("key", "");
    record.controller.controller_key = root.value("controller_key", "");
    record.endpoint_elsewhere = root.value("endpoint_elsewhere", "");
    record.directory = root.at("directory");
    record.workers = root.at("workers");
    for (const json& host : root.value("hosts", json::array())) {
      record.hosts.emplace_back(host.at("host"), host.at("ranks"));
    }
    for (const json& process : root.at("processes")) {
      record.processes.push_back(
          {process.at("role"), process.at("pid"), process.at("start_ticks")});
    }
    return record;
  } catch (const json::exception& error) {
    return NoRecord(path, error.what());
  }
}

using namespace std::chrono_literals;

constexpr auto kAskPatience = 2s;
constexpr auto kSignalPatience = 2s;
// They are no children of ours: there is nothing to wait on but the process table.
constexpr auto kPollInterval = 2ms;

// Sends `signal` if the process is still the recorded one. The descriptor pins it down, so that the
// id cannot become another process's between the look and the signal.
void Signal(const ProcessRecord& process, int signal) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
  if (fd < 0) return;
  if (process.IsAlive()) syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0);
  close(fd);
}

// True if all have ended by `deadline`.
bool WaitForAll(const ClusterRecord& record, Deadline deadline) {
  while (record.IsAlive()) {
    if (deadline.Expired()) return false;
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

}  // namespace

bool ProcessRecord::IsAlive() const { return pid > 0 && StartTicks(pid) == start_ticks; }

StatusOr<ProcessRecord> RecordProcess(const std::string& role, pid_t pid) {
  const std::optional<uint64_t> ticks = StartTicks(pid);
  if (!ticks.has_value()) return NotFound("the ", role, " process ", pid, " has ended");
  return ProcessRecord{role, pid, *ticks};
}

bool ClusterRecord::IsAlive() const {
  return std::any_of(processes.begin(), processes.end(),
                     [](const ProcessRecord& process) { return process.IsAlive(); });
}

bool ClusterRecord::HasOtherHosts() const {
  return std::any_of(hosts.begin(), hosts.end(),
                     [](const auto& host) { return host.first != local::kThisHost; });
}

bool ClusterRecord::HasController() const {
  return !processes.empty() && processes.front().IsAlive();
}

int ClusterRecord::CountAliveWorkers() const {
  if (processes.empty()) return 0;
  return static_cast<int>(std::count_if(processes.begin() + 1, processes.end(),
                                        [](const auto& process) { return process.IsAlive(); }));
}

Status ClusterRecord::CheckController() const {
  if (HasController()) return OkStatus();
  const std::string pid =
      processes.empty() ? "" : " (process " + std::to_string(processes.front().pid) + ")";
  const int left = CountAliveWorkers();
  if (left == 0) {
    return WithExitCode(
        Unavailable("the cluster \"", name, "\" is dead; its logs are in ", directory,
                    " until `lockstep down ", name, "` or the next `up` removes them"),
        ExitCode::kUnreachable);
  }
  return WithExitCode(
      Unavailable("the controller of the cluster \"", name, "\"", pid, " has ended, and ", left,
                  " of its ", workers, " workers still ", left == 1 ? "runs" : "run",
                  ": `lockstep up --name ", name,
                  "` starts it again and takes them over, `lockstep down ", name, "` stops them"),
      ExitCode::kUnreachable);
}

std::string RecordDirectory() { return Home() + "/records"; }
std::string DefaultRunDirectory(const std::string& name) { return Home() + "/run/" + name; }

Status MakePrivateDirectory(const std::string& path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (mkdir(path.c_str(), 0700) == 0) return OkStatus();
  if (errno != EEXIST) return Internal("cannot make ", path, ": ", std::strerror(errno));
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    return Internal("cannot look at ", path, ": ", std::strerror(errno));
  }
  if (!S_ISDIR(info.st_mode)) return PermissionDenied(path, " is no directory; remove it");
  if (info.st_uid != getuid()) {
    return PermissionDenied(path, " belongs to user ", info.st_uid, ", not to you (", getuid(),
                            "); set XDG_RUNTIME_DIR to a directory of your own");
  }
  if ((info.st_mode & 077) != 0) {
    return PermissionDenied(path, " may be entered by others; chmod 700 ", path);
  }
  return OkStatus();
}

Status MakeDefaultRunDirectory(const std::string& name) {
  LOCKSTEP_RETURN_IF_ERROR(MakeDirectoryAtHome(Home() + "/run"));
  return MakePrivateDirectory(DefaultRunDirectory(name));
}

StatusOr<ClusterLock> ClusterLock::Acquire(const std::string& name) {
  LOCKSTEP_RETURN_IF_ERROR(MakeDirectoryAtHome(LockDirectory()));
  const std::string path = LockDirectory() + "/" + name + ".lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return Internal("cannot open ", path, ": ", std::strerror(errno));
  ClusterLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return lock;
  return FailedPrecondition("another command is starting or stopping the cluster \"", name, "\"");
}

ClusterLock::ClusterLock(ClusterLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

// The file stays: removing it could leave two holders of two files of one name.
ClusterLock::~ClusterLock() {
  if (fd_ >= 0) close(fd_);
}

Status WriteRecord(const ClusterRecord& record) {
  LOCKSTEP_RETURN_IF_ERROR(MakeDirectoryAtHome(RecordDirectory()));
  json processes = json::array();
  for (const ProcessRecord& process : record.processes) {
    processes.push_back(
        {{"role", process.role}, {"pid", process.pid}, {"start_ticks", process.start_ticks}});
  }
  json hosts = json::array();
  for (const auto& [host, ranks] : record.hosts) {
    hosts.push_back({{"host", host}, {"ranks", ranks}});
  }
  const json root = {{"name", record.name},
                     {"endpoint", record.controller.endpoint},
                     {"key", record.controller.key},
                     {"controller_key", record.controller.controller_key},
                     {"endpoint_elsewhere", record.endpoint_elsewhere},
                     {"directory", record.directory},
                     {"workers", record.workers},
                     {"hosts", hosts},
                     {"processes", processes}};
  // Renamed into place, so that a reader sees all of it or nothing.
  const std::string path = RecordPath(record.name);
  const std::string draft = path + ".new";
  std::ofstream file(draft, std::ios::trunc);
  file << root.dump(2) << '\n';
  file.close();
  if (!file || std::rename(draft.c_str(), path.c_str()) != 0) {
    return Internal("cannot write ", path, ": ", std::strerror(errno));
  }
  return OkStatus();
}

StatusOr<std::optional<ClusterRecord>> ReadRecord(const std::string& name) {
  LOCKSTEP_RETURN_IF_ERROR(CheckClusterName(name));
  LOCKSTEP_ASSIGN_OR_RETURN(const bool any, HaveRecords());
  if (!any) return std::optional<ClusterRecord>();
  const std::string path = RecordPath(name);
  std::ifstream file(path);
  if (!file) {
    if (errno == ENOENT) return std::optional<ClusterRecord>();
    return Internal("cannot read ", path, ": ", std::strerror(errno));
  }
  // Unlike an iterator, this does not throw if the path is a directory's.
  std::ostringstream text;
  text << file.rdbuf();
  LOCKSTEP_ASSIGN_OR_RETURN(ClusterRecord record, ParseRecord(path, text.str()));
  if (record.name != name) return NoRecord(path, "it is one of \"" + record.name + "\"");
  return std::optional<ClusterRecord>(std::move(record));
}

StatusOr<RecordList> ListRecords() {
  RecordList list;
  LOCKSTEP_ASSIGN_OR_RETURN(const bool any, HaveRecords());
  if (!any) return list;
  std::error_code error;
  fs::directory_iterator entries(RecordDirectory(), error);
  if (error) return Internal("cannot list ", RecordDirectory(), ": ", error.message());
  for (const fs::directory_entry& entry : entries) {
    if (entry.path().extension() != ".json") continue;
    const std::string name = entry.path().stem().string();
    if (!CheckClusterName(name).ok()) {
      list.unreadable.push_back(NoRecord(entry.path().string(), "no cluster has such a name"));
      continue;
    }
    StatusOr<std::optional<ClusterRecord>> record = ReadRecord(name);
    if (!record.ok()) {
      list.unreadable.push_back(record.status());
    } else if (record->has_value()) {
      list.clusters.push_back(**std::move(record));
    }
  }
  std::sort(list.clusters.begin(), list.clusters.end(),
            [](const ClusterRecord& a, const ClusterRecord& b) { return a.name < b.name; });
  return list;
}

Status RemoveCluster(const ClusterRecord& record) {
  std::error_code error;
  fs::remove_all(record.directory, error);
  if (error) return Internal("cannot remove ", record.directory, ": ", error.message());
  fs::remove(RecordPath(record.name), error);
  if (error) return Internal("cannot remove ", RecordPath(record.name), ": ", error.message());
  return OkStatus();
}

Status CheckClusterName(const std::string& name) {
  const bool valid = !name.empty() && name.size() <= 63 && name.front() != '.' &&
                     name.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyz"
                         "0123456789-_.") == std::string::npos;
  if (valid) return OkStatus();
  return InvalidArgument("\"", name,
                         "\" is no cluster name; expected at most 63 lower-case letters, "
                         "digits, '-', '_' and '.'");
}

Status StopCluster(const ClusterRecord& record, std::chrono::milliseconds patience,
                   std::string* forced) {
  forced->clear();
  if (!record.processes.empty() && record.processes.front().IsAlive()) {
    const Status asked =
        ShutdownCluster(record.controller, "lockstep down",
                        std::min<std::chrono::milliseconds>(patience, kAskPatience));
    if (asked.ok()) WaitForAll(record, Deadline::After(patience));
  }
  for (const ProcessRecord& process : record.processes) {
    if (!process.IsAlive()) continue;
    *forced += (forced->empty() ? "" : ", ") + process.role;
    Signal(process, SIGTERM);
  }
  if (!WaitForAll(record, Deadline::After(kSignalPatience))) {
    for (const ProcessRecord& process : record.processes) Signal(process, SIGKILL);
  }
  if (!WaitForAll(record, Deadline::After(kSignalPatience))) {
    return DeadlineExceeded("processes of the cluster \"", record.name, "\" survive SIGKILL; see ",
                            record.directory);
  }
  return RemoveCluster(record);
}

}  // namespace lockstep::cli
