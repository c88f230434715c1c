// The sessions of a controller.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/error_codec.h"

namespace lockstep::controller {

struct SessionEntry {
  // Stands for what a lost worker has consumed: nobody waits for it.
  static constexpr uint64_t kConsumesNothing = std::numeric_limits<uint64_t>::max();

  SessionId id;
  control::PeerName client;
  std::string token;
  std::string name;
  std::string host;
  std::string host_id;
  int pid = 0;
  int num_groups = 1;
  Generation generation;
  control::RemoteError failure;          // the first cause of this generation; OK: none
  uint64_t sent_bytes = 0;               // FlowCost of the bodies sent on
  std::vector<uint64_t> consumed_bytes;  // by rank
  Deadline::Clock::time_point last_heard;

  uint64_t SlowestConsumed() const;
};

// Threads: one at a time.
class SessionTable {
 public:
  explicit SessionTable(int workers) : workers_(workers) {}

  // A new session with the next id.
  SessionEntry& Open(const control::PeerName& client);
  void Close(SessionId id) { sessions_.erase(id); }

  // The session `id` if `client` owns it. kNotFound if it is not open (any more), kPermissionDenied
  // if another client's.
  StatusOr<SessionEntry*> FindOwned(SessionId id, const control::PeerName& client);
  // Null if it is not open.
  SessionEntry* Find(SessionId id);

  std::map<SessionId, SessionEntry>& all() { return sessions_; }

 private:
  const int workers_;
  uint32_t last_id_ = 0;
  std::map<SessionId, SessionEntry> sessions_;
};

}  // namespace lockstep::controller
