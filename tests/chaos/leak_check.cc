#include "tests/chaos/leak_check.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "tests/chaos/client.h"

namespace lockstep::chaos {
namespace {

using namespace std::chrono_literals;

// The cluster's status once `found`; an error if that takes too long.
template <typename Found>
Status Await(const ControllerAddress& controller, const std::string& what, Found found) {
  const Deadline deadline = Deadline::After(kPatience);
  while (true) {
    LOCKSTEP_ASSIGN_OR_RETURN(const ClusterStatus status, GetClusterStatus(controller, kPatience));
    if (found(status)) return OkStatus();
    if (deadline.Expired()) return Violation(what);
    std::this_thread::sleep_for(5ms);
  }
}

std::string NameOf(pid_t pid) {
  std::ifstream comm("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(comm, name);
  return name;
}

}  // namespace

std::multiset<std::string> OpenDescriptors() {
  std::multiset<std::string> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the one that reads the directory
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    // Sockets and the like have numbers of their own: what counts is how many there are.
    if (!gone) open.insert(target.substr(0, target.find_first_of("[0123456789")));
  }
  return open;
}

Status CheckDescriptors(const std::multiset<std::string>& before) {
  const std::multiset<std::string> after = OpenDescriptors();
  std::string left;
  std::vector<std::string> added;
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(),
                      std::back_inserter(added));
  for (const std::string& name : added) left += " " + name;
  return left.empty() ? OkStatus() : Violation("descriptors of this process are left:", left);
}

std::map<pid_t, size_t> DescriptorsOf(const std::vector<pid_t>& pids) {
  std::map<pid_t, size_t> counts;
  for (const pid_t pid : pids) {
    std::error_code gone;
    const std::filesystem::directory_iterator open("/proc/" + std::to_string(pid) + "/fd", gone);
    if (!gone) counts[pid] = static_cast<size_t>(std::distance(begin(open), end(open)));
  }
  return counts;
}

Status CheckDescriptorsOf(const std::vector<pid_t>& pids, const std::map<pid_t, size_t>& before) {
  const Deadline deadline = Deadline::After(kPatience);
  while (true) {
    std::string more;
    for (const auto& [pid, count] : DescriptorsOf(pids)) {
      const auto was = before.find(pid);
      if (was == before.end() || count <= was->second) continue;
      more += " " + NameOf(pid) + " (process " + std::to_string(pid) + ") has " +
              std::to_string(count) + ", had " + std::to_string(was->second) + ";";
    }
    if (more.empty()) return OkStatus();
    if (deadline.Expired()) return Violation("descriptors of services are left:", more);
    std::this_thread::sleep_for(5ms);
  }
}

Status CheckAtRest(const ControllerAddress& controller, const Plan& plan) {
  const std::vector<Rank> lost = LosesForGood(plan.fault) ? plan.LostRanks() : std::vector<Rank>();
  LOCKSTEP_RETURN_IF_ERROR(Await(controller, "sessions are left",
                                 [](const ClusterStatus& now) { return now.sessions.empty(); }));
  return Await(controller, "a worker is disturbed, or holds registers of no session",
               [&](const ClusterStatus& now) {
                 for (const WorkerStatus& worker : now.workers) {
                   const bool is_lost =
                       std::find(lost.begin(), lost.end(), worker.rank) != lost.end();
                   if (is_lost != (worker.state == WorkerState::kLost)) return false;
                   if (is_lost) continue;
                   if (worker.state != WorkerState::kReady) return false;
                   if (worker.activity.registers + worker.activity.tensor_bytes > 0) return false;
                 }
                 return true;
               });
}

}  // namespace lockstep::chaos
