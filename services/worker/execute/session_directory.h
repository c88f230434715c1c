// Which sessions this worker has: how each is opened, closed, taken over and aborted.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/session_record.h"
#include "runtime/registers/register_file.h"
#include "runtime/tensor/arena.h"
#include "services/worker/bulk/bulk_server.h"
#include "services/worker/execute/lent_memory_reclaimer.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/join/envelope.h"
#include "services/worker/join/membership.h"

namespace lockstep::worker {

// Threads: Count(), Abort() and AbortAll() are safe from any; all else belongs to the executing
// thread.
class SessionDirectory {
 public:
  // `limits` are those of each session's registers. Lends memory of `arena` to clients of this
  // host, and publishes tensors at `bulk`. Both are borrowed.
  SessionDirectory(const registers::RegisterFile::Limits& limits, const tensor::Arena& arena,
                   BulkServer& bulk)
      : arena_(arena), bulk_(bulk), registers_(limits) {}

  // The aborts that come from now on are this controller's: those of sessions and generations that
  // an earlier one was yet to begin are forgotten. Before its first abort can come.
  void SetController(const Membership& membership);
  // The sessions are those of the welcome from now on. Those that it does not have, or that went on
  // without this worker, are closed; those that are not here are opened.
  void AdoptWelcome(const Membership& membership);

  // Null: there is none.
  std::shared_ptr<SessionState> Find(SessionId id);
  // By id.
  std::vector<std::shared_ptr<SessionState>> All();
  size_t Count();
  // What another controller must know of each session.
  std::vector<control::SessionRecord> Inventory();
  // Which sessions hold how much memory, for the error that there is none left. The thread that
  // allocates asks, which is the executing one: registers are counted by it, and without a lock.
  std::string DescribeMemoryUse();
  // Of all sessions.
  const registers::RegisterTotals& totals() const { return registers_.totals(); }

  // A session that cannot be opened is logged, and is not there.
  void Open(const control::SessionRecord& record);
  // Frees its registers, but for what its client may still write to: what was lent to it, and, if
  // it is `client_lost`, what it has located.
  void Close(SessionState& session, bool client_lost);
  // Another client has the session now, or the same one shows another key.
  void Adopt(SessionState& session, const control::SessionRecord& record);

  // Ends the session's work of that generation from a command on, for the cause that another rank
  // gave. That of a session which is yet to be opened is kept for it.
  void Abort(SessionId session, const AbortOrder& abort);
  // Ends all that is under way, also on the GPU.
  void AbortAll(const control::RemoteError& cause);

  // What is kept for clients that are lost; what waits for batches waits for their ends, too.
  LentMemoryReclaimer& lent_memory() { return lent_memory_; }

 private:
  // Aborts of sessions that this worker has yet to open: they travel on another socket, and a
  // worker that is busy is overtaken by them.
  struct EarlyAbort {
    SessionId session;
    AbortOrder abort;
  };

  // The ranks of this world can be split into the session's groups.
  bool HasGroupsHere(const control::SessionRecord& record) const;
  // The client is to write to none of it any more. What it may write to all the same is kept until
  // its process has ended.
  void TakeFromClient(SessionState& session, bool client_lost);

  const tensor::Arena& arena_;
  BulkServer& bulk_;
  registers::SessionRegisters registers_;
  LentMemoryReclaimer lent_memory_;
  int world_size_ = 1;

  std::mutex mutex_;  // guards what follows; a session guards itself
  std::map<SessionId, std::shared_ptr<SessionState>> sessions_;
  SessionId last_session_;  // the last that was opened; their ids grow
  std::vector<EarlyAbort> early_aborts_;
};

}  // namespace lockstep::worker
