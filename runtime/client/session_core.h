// The state of a session that its Session object and its DRefs share.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/client/argument.h"
#include "runtime/client/dref.h"
#include "runtime/client/link.h"
#include "runtime/client/register_names.h"
#include "runtime/control/batch.h"
#include "runtime/control/frame.h"

namespace lockstep::client {

// Batches commands, sends the batches, and waits for answers.
//
// A command that comes after a pause is sent at once; commands in quick succession are collected
// and sent when the batch is full, when somebody waits, or by the keeper thread a moment later.
//
// Threads: safe; one mutex guards everything. Whoever waits for an answer reads the socket itself,
// so that an answer wakes nobody in between; an answer to somebody else is handed over to him.
class SessionCore {
 public:
  static StatusOr<std::shared_ptr<SessionCore>> Open(const OpenRequest& request,
                                                     std::chrono::milliseconds timeout,
                                                     std::shared_ptr<control::ZmqContext> context);
  ~SessionCore();

  const SessionFacts& facts() const { return link_->facts(); }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // kInvalidArgument if `ref` is null or of another session.
  Status CheckOwn(const DRef& ref, std::string_view what) const;

  // Appends the command that `fill` writes. Returns the session's error if it cannot take any.
  template <typename Fill>
  Status Issue(Fill&& fill) {
    std::lock_guard lock(mutex_);
    LOCKSTEP_RETURN_IF_ERROR(Usable());
    Append(std::forward<Fill>(fill));
    return SendIfDue();
  }

  // The same for a command that gives its result a new name.
  template <typename Fill>
  StatusOr<DRef> IssueNaming(Fill&& fill) {
    std::lock_guard lock(mutex_);
    LOCKSTEP_RETURN_IF_ERROR(Usable());
    DRef result = names_->Acquire();
    Append([&](wire::Command::Builder command) { fill(command, result.id()); });
    LOCKSTEP_RETURN_IF_ERROR(SendIfDue());
    return result;
  }

  // Appends a command that is answered by `from` (-1: all ranks), sends, and waits. Returns the
  // body of the answer. After OK from rank 0, WorkerZeroIsIdle() holds until the next command.
  template <typename Fill>
  StatusOr<control::Frame> Ask(Rank from, Fill&& fill) {
    std::unique_lock lock(mutex_);
    LOCKSTEP_RETURN_IF_ERROR(Usable());
    Append(std::forward<Fill>(fill));
    return SendAndWait(lock, from);
  }

  // True if worker-0 has executed every command issued so far.
  bool WorkerZeroIsIdle();

  Status Flush();
  Status Reset();
  Status Close();

 private:
  SessionCore(std::unique_ptr<Link> link, std::chrono::milliseconds timeout);

  // All below: with mutex_ held.
  Status Usable();
  template <typename Fill>
  void Append(Fill&& fill) {
    if (writer_.empty()) first_command_ = next_command_;
    writer_.Add(std::forward<Fill>(fill));
    ++next_command_;
  }
  Status SendIfDue();
  Status SendBatch(RequestId request, Rank answer_from);
  Status WaitForRoom(uint64_t cost);
  void AppendKills();
  StatusOr<control::Frame> SendAndWait(std::unique_lock<std::mutex>& lock, Rank from);
  // Sends `message` that is answered under `request`, and waits.
  Status AskController(std::unique_lock<std::mutex>& lock, RequestId request,
                       const control::Frame& message, std::chrono::milliseconds timeout);
  // Waits for `answer`; gives the lock up meanwhile.
  Status Await(std::unique_lock<std::mutex>& lock, RequestId request, PendingAnswer& answer,
               Deadline deadline);

  // The keeper thread: sends what is left over, and keeps the session's lease.
  void Keep();

  std::mutex mutex_;
  const std::unique_ptr<Link> link_;
  const std::chrono::milliseconds timeout_;
  RegisterNames* const names_;
  control::BatchWriter writer_;
  std::vector<uint64_t> kills_;  // scratch of AppendKills
  uint64_t next_command_ = 1;    // number of the next command
  uint64_t first_command_ = 1;   // number of the first one in writer_
  uint64_t idle_after_ = 0;      // worker-0 had executed all below this when it last answered
  uint64_t next_request_ = 1;
  Deadline::Clock::time_point last_send_;
  bool closed_ = false;

  std::condition_variable keeper_wake_;
  bool keeper_active_ = false;
  bool stopping_ = false;
  std::thread keeper_;
};

// Writes `arguments` as a command's argument list.
void WriteArguments(capnp::List<wire::Value>::Builder list, absl::Span<const Argument> arguments);

}  // namespace lockstep::client
