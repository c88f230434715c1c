#include "services/controller/sessions/watched_clients.h"

#include <unistd.h>

#include <utility>

#include "runtime/base/host_identity.h"
#include "runtime/base/process.h"

namespace lockstep::controller {
namespace {

class ProcessOfThisHost final : public ClientProcess {
 public:
  explicit ProcessOfThisHost(WatchedProcess process) : process_(std::move(process)) {}
  bool HasEnded() const override { return process_.HasEnded(); }

 private:
  const WatchedProcess process_;
};

// A client that has ended before it could be watched: another process may get its number.
class EndedProcess final : public ClientProcess {
 public:
  bool HasEnded() const override { return true; }
};

}  // namespace

std::shared_ptr<const ClientProcess> WatchedClients::Watch(const std::string& host_id, int pid) {
  if (host_id.empty() || host_id != ThisHost().id || pid == getpid()) return nullptr;
  std::erase_if(watched_, [](const auto& entry) { return entry.second.expired(); });
  if (const auto known = watched_.find(pid); known != watched_.end()) {
    std::shared_ptr<const ClientProcess> process = known->second.lock();
    // One that has ended may have left its number to this one.
    if (process != nullptr && !process->HasEnded()) return process;
    watched_.erase(known);
  }
  if (watched_.size() >= kMost) return nullptr;
  StatusOr<WatchedProcess> found = WatchedProcess::Watch(pid);
  if (found.status().code() == StatusCode::kNotFound) return std::make_shared<EndedProcess>();
  if (!found.ok()) return nullptr;
  auto process = std::make_shared<const ProcessOfThisHost>(*std::move(found));
  watched_[pid] = process;
  return process;
}

}  // namespace lockstep::controller
