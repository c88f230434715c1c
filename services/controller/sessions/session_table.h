// The sessions of a controller.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/session_record.h"
#include "services/controller/common/batch_order.h"
#include "services/controller/common/client_processes.h"
#include "services/controller/common/clock.h"
#include "services/controller/sessions/output_window.h"

namespace lockstep::controller {

// What its client and its commands have come to. It is no SessionRecord for others: how far its
// commands are is in `commands`, and Record() makes a record of both.
struct SessionEntry : private control::SessionRecord {
  using SessionRecord::bulk_key;
  using SessionRecord::client_lost;
  using SessionRecord::client_number;
  using SessionRecord::command_timeout;
  using SessionRecord::failure;
  using SessionRecord::forward_output;
  using SessionRecord::generation;
  using SessionRecord::host;
  using SessionRecord::host_id;
  using SessionRecord::id;
  using SessionRecord::keep_for;
  using SessionRecord::name;
  using SessionRecord::names;
  using SessionRecord::num_groups;
  using SessionRecord::owner;
  using SessionRecord::pid;
  using SessionRecord::register_generations;
  using SessionRecord::token;

  // Under which workers say that they have closed the session; clients may not use it.
  static constexpr RequestId kEndRequest{std::numeric_limits<uint64_t>::max()};

  // The end of a session, from the close until every rank has executed it.
  struct Ending {
    std::optional<RequestId> request;      // of the client that closed it; none: nothing waits
    Deadline deadline = Deadline::At({});  // when the work that is left is aborted ...
    bool aborted = false;                  // ... which happens once, ...
    TimePoint aborted_at;                  // ... at this time, ...
    control::RemoteError abort_cause;      // ... for this reason
    std::vector<bool> waiting;             // by rank: has not closed it yet
    control::RemoteError error;            // the first that a rank answered with
  };

  // A generation that was reset.
  struct PastFailure {
    Generation generation;
    uint64_t failed_from = 0;  // as in SessionEntry
    uint64_t end = 0;          // the first command of the next generation
  };

  control::PeerName client;         // empty: it has none, but may come back, or another attach
  std::vector<Generation> come_to;  // by rank: the generation that its worker was heard in last
  uint64_t failed_from = 0;         // with `failure`: the first command that is not executed
  // Other ranks on which the command of `failure` has failed with the same code, in rank order.
  std::vector<Rank> failed_alike;
  // Of generations that some rank may still be in, the oldest first.
  std::deque<PastFailure> past_failures;
  control::RemoteError broken;  // why no reset can mend it; OK: a reset can
  CommandStream commands;
  // Ranks whose worker was replaced since the session was opened: the first command that the
  // present one was sent.
  std::map<Rank, uint64_t> replaced;
  uint64_t heard_messages = 0;  // of the client, and ...
  uint64_t told_messages = 0;   // ... to it, as KeepAlive counts them
  TimePoint last_heard;
  // Its client's; null: it has none, or its end cannot be seen from here.
  std::shared_ptr<const ClientProcess> process;
  std::optional<TimePoint> ended_at;  // when that was found to have ended
  TimePoint known_since;
  Deadline kept_until = Deadline::At({});   // while it has no client ...
  bool was_restored = false;                // and its client could not have come back yet
  Deadline owner_until = Deadline::At({});  // ... and no other client than its last may have it
  std::optional<Ending> ending;
  OutputWindow output;

  // `failure`, with the ranks that failed alike. The client is told of it before those are known;
  // this is for those who ask later.
  control::RemoteError FailureOnAllRanks() const;
  // What others need to take it over, with the number of the command that comes next.
  control::SessionRecord Record() const;
  // Becomes what the record says, but for how far its commands are.
  void TakeOver(const control::SessionRecord& record);
  // It has no client for now, and ends if it has none by then.
  void KeepWithoutClient(Deadline until);
  // `process`: its client's from now on.
  void SetProcess(std::shared_ptr<const ClientProcess> process);

  void Name(const std::string& text, const control::NamedRegister& named);
  void Unname(const std::string& text);
  // What its names take up where the session is handed over: to a worker that joins, or to a
  // controller that is started again.
  size_t name_bytes() const { return name_bytes_; }

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
  SessionEntry& Open(const control::PeerName& client, TimePoint now);
  // One that another controller has opened. No client owns it until its own comes back. Later ids
  // are greater than its own.
  SessionEntry& Restore(const control::SessionRecord& record, TimePoint now);
  void Close(SessionId id) { sessions_.erase(id); }

  // The session `id` if `client` owns it. kNotFound if it is not open (any more), or no client owns
  // it; kPermissionDenied if another client's.
  StatusOr<SessionEntry*> FindOwned(SessionId id, const control::PeerName& client);
  // The same for a message of the client that counts (see wire::KeepAlive).
  StatusOr<SessionEntry*> FindHeard(SessionId id, const control::PeerName& client);
  // The same of one that is not being closed: kFailedPrecondition.
  StatusOr<SessionEntry*> FindOpen(SessionId id, const control::PeerName& client);
  static Status BeingClosed(SessionId id);
  // Null if it is not open.
  SessionEntry* Find(SessionId id);
  const SessionEntry* Find(SessionId id) const;

  // kResourceExhausted if `session` cannot have one more name.
  Status CheckRoomForName(const SessionEntry& session, const std::string& text) const;

  std::map<SessionId, SessionEntry>& all() { return sessions_; }
  const std::map<SessionId, SessionEntry>& all() const { return sessions_; }
  // For loops that may close some of them.
  std::vector<SessionId> Ids() const;

 private:
  SessionEntry& Add(SessionId id, uint64_t next_command, TimePoint now);

  const int workers_;
  uint32_t last_id_ = 0;
  std::map<SessionId, SessionEntry> sessions_;
};

}  // namespace lockstep::controller
