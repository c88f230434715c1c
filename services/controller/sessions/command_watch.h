// Workers that take long over one command: they are logged, fail sessions that set a limit, are
// told again of aborts, and explain answers that are late.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/worker_report.h"
#include "services/controller/common/liveness.h"
#include "services/controller/common/membership.h"
#include "services/controller/common/tools.h"
#include "services/controller/sessions/function_times.h"
#include "services/controller/sessions/session_failures.h"
#include "services/controller/sessions/session_table.h"

namespace lockstep::controller {

// Threads: one at a time. What it is made of must outlive it.
class CommandWatch {
 public:
  CommandWatch(const Tools& tools, Liveness& liveness, SessionTable& sessions,
               SessionFailures& failures)
      : tools_(tools),
        liveness_(liveness),
        sessions_(sessions),
        failures_(failures),
        told_(static_cast<size_t>(tools.membership.size())),
        told_ended_(told_.size()),
        times_(tools.membership.size()) {}

  // Says in the log which workers are stuck, and which execute something of a session that has
  // ended, each once per command; fails sessions whose command_timeout
  // has passed; and repeats aborts to ranks that stay in a collective that is aborted.
  void Look();

  // The longest that the function which a worker executes is known to have taken before; 0: it is
  // not known.
  std::chrono::milliseconds LongestBefore(const WorkerActivity& activity) const {
    return times_.Longest(activity.what);
  }
  // True if a worker has executed one command of its own for longer than stuck_after, and for
  // longer than its function is known to take.
  bool IsStuck(const WorkerActivity& activity) const;

 private:
  void NoteTime(Rank rank, const Membership::Member& member, const WorkerActivity& activity);
  void FailIfOverdue(Rank rank, const WorkerActivity& activity);
  void RepeatAbort(Rank rank, const WorkerActivity& activity);
  void TellIfStuck(Rank rank, const WorkerActivity& activity);
  void TellIfEnded(Rank rank, const WorkerActivity& activity);

  // The command, counted from its worker's start, that was told of.
  struct Told {
    WatchId worker;
    uint64_t launched = 0;
    bool operator==(const Told&) const = default;
  };

  const Tools& tools_;
  Liveness& liveness_;
  SessionTable& sessions_;
  SessionFailures& failures_;
  std::vector<Told> told_;        // by rank: to be stuck
  std::vector<Told> told_ended_;  // ... of a session that has ended
  FunctionTimes times_;
};

// True if a worker has executed one command of its own for longer than that, and for more than
// twice as long as `longest_before` (0: it is not known).
bool IsStuck(const WorkerActivity& activity, std::chrono::milliseconds stuck_after,
             std::chrono::milliseconds longest_before = std::chrono::milliseconds(0));

// Why ranks have not answered `session`: what they are doing instead; and how one is ended that
// holds `session` up with the work of another, which has ended.
control::RemoteError LateError(const Membership& membership, const Liveness& liveness,
                               const SessionTable& sessions, SessionId session,
                               const std::vector<Rank>& late);

}  // namespace lockstep::controller
