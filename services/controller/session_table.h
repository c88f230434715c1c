// The sessions of a controller.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/session_record.h"
#include "services/controller/output_window.h"

namespace lockstep::controller {

// `next_command` is the number that the next batch begins with, `consumed_bytes` is not used.
struct SessionEntry : control::SessionRecord {
  // Stands for what a lost worker has consumed: nobody waits for it.
  static constexpr uint64_t kConsumesNothing = std::numeric_limits<uint64_t>::max();
  // Under which workers say that they have closed the session; clients may not use it.
  static constexpr RequestId kEndRequest{std::numeric_limits<uint64_t>::max()};

  // The end of a session, from the close until every rank has executed it.
  struct Ending {
    std::optional<RequestId> request;         // of the client that closed it; none: nobody waits
    Deadline deadline = Deadline::After({});  // when the work that is left is aborted ...
    bool aborted = false;                     // ... which happens once
    std::vector<bool> waiting;                // by rank: has not closed it yet
    control::RemoteError error;               // the first that a rank answered with
  };

  control::PeerName client;         // empty: it has none, but may come back, or another attach
  std::vector<Generation> come_to;  // by rank: the generation that its worker was heard in last
  uint64_t reset_at = 1;            // the first command of this generation
  uint64_t failed_from = 0;         // with `failure`: the first command that is not executed
  control::RemoteError broken;      // why no reset can mend it; OK: a reset can
  uint64_t sent_bytes = 0;          // FlowCost of the bodies sent on
  uint64_t lost_bytes = 0;          // FlowCost of bodies that were lost on their way here
  std::vector<uint64_t> consumed;   // the same of those that were consumed, by rank
  // Ranks whose worker was replaced since the session was opened: the first command that the
  // present one was sent.
  std::map<Rank, uint64_t> replaced;
  uint64_t heard_messages = 0;  // of the client, and ...
  uint64_t told_messages = 0;   // ... to it, as KeepAlive counts them
  Deadline::Clock::time_point last_heard;
  Deadline::Clock::time_point known_since = Deadline::Clock::now();
  Deadline kept_until = Deadline::After({});   // while it has no client ...
  bool was_restored = false;                   // and its client could not have come back yet
  Deadline owner_until = Deadline::After({});  // ... and no other client than its last may have it
  std::optional<Ending> ending;
  OutputWindow output;

  void Name(const std::string& text, const control::NamedRegister& named);
  void Unname(const std::string& text);
  // What its names take up where the session is handed over: to a worker that joins, or to a
  // controller that is started again.
  size_t name_bytes() const { return name_bytes_; }

  uint64_t SlowestConsumed() const;
  // What was sent and the slowest worker has not consumed; lost workers do not count.
  uint64_t UnderWay() const { return sent_bytes - std::min(SlowestConsumed(), sent_bytes); }

 private:
  size_t name_bytes_ = 0;
};

// Threads: one at a time.
class SessionTable {
 public:
  static constexpr size_t kMostNames = 4096;  // in one session
  // Of the names of all sessions, and of those of one key's owner: a welcome has all of them, and a
  // worker that reads one for long is taken for lost.
  static constexpr size_t kMostNameBytes = size_t{8} << 20;
  static constexpr size_t kMostNameBytesOfKey = size_t{2} << 20;

  explicit SessionTable(int workers) : workers_(workers) {}

  // A new session with the next id.
  SessionEntry& Open(const control::PeerName& client);
  // One that another controller has opened. Nobody owns it until its client comes back. Later ids
  // are greater than its own.
  SessionEntry& Restore(const control::SessionRecord& record);
  void Close(SessionId id) { sessions_.erase(id); }

  // The session `id` if `client` owns it. kNotFound if it is not open (any more), or nobody owns
  // it; kPermissionDenied if another client's.
  StatusOr<SessionEntry*> FindOwned(SessionId id, const control::PeerName& client);
  // Null if it is not open.
  SessionEntry* Find(SessionId id);

  // kResourceExhausted if `session` cannot have one more name.
  Status CheckRoomForName(const SessionEntry& session, const std::string& text) const;

  std::map<SessionId, SessionEntry>& all() { return sessions_; }
  const std::map<SessionId, SessionEntry>& all() const { return sessions_; }
  // For loops that may close some of them.
  std::vector<SessionId> Ids() const;

 private:
  SessionEntry& Add(SessionId id);

  const int workers_;
  uint32_t last_id_ = 0;
  std::map<SessionId, SessionEntry> sessions_;
};

}  // namespace lockstep::controller
