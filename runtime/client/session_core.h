// The state of a session that its Session object and its DRefs share.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/client/argument.h"
#include "runtime/client/dref.h"
#include "runtime/client/link.h"
#include "runtime/client/output_listener.h"
#include "runtime/client/register_names.h"
#include "runtime/control/batch.h"
#include "runtime/control/frame.h"
#include "runtime/trace/ring.h"

namespace lockstep::client {

// The controller reports late workers itself; the client waits this much longer, and only then
// takes the controller to be silent.
constexpr std::chrono::milliseconds kAnswerGrace{2000};

// Batches commands, sends the batches, and waits for answers.
//
// A command that comes after a pause is sent at once; commands in quick succession are collected
// and sent when the batch is full, when somebody waits, or by the keeper thread a moment later.
//
// Threads: safe; one mutex guards everything. Whoever waits for an answer reads the socket itself,
// so that an answer wakes nobody in between; an answer to somebody else is handed over to him.
class SessionCore {
 public:
  // `on_output` of the request is called on a thread of its own.
  static StatusOr<std::shared_ptr<SessionCore>> Open(const OpenRequest& request,
                                                     std::chrono::milliseconds timeout,
                                                     std::shared_ptr<control::ZmqContext> context);
  ~SessionCore();

  const SessionFacts& facts() const { return link_->facts(); }
  // In rank order, as they are now.
  std::vector<Peer> Workers();
  std::chrono::milliseconds timeout() const { return timeout_; }

  // kInvalidArgument if `ref` is null or of another session.
  Status CheckOwn(const DRef& ref, std::string_view what) const;

  // Appends the command that `fill` writes (it may be called twice). After an error nothing was
  // appended: the session's error if it cannot take any, kDeadlineExceeded if the workers are too
  // far behind for the session's time-out, kInvalidArgument for a command that is too large.
  template <typename Fill>
  Status Issue(Fill&& fill) {
    std::unique_lock lock(mutex_);
    LOCKSTEP_RETURN_IF_ERROR(WaitForRoom(lock, timeout_));
    LOCKSTEP_RETURN_IF_ERROR(Append(fill));
    return SendIfDue();
  }

  // The same for a command that gives its result a new name.
  template <typename Fill>
  StatusOr<DRef> IssueNaming(Fill&& fill) {
    std::unique_lock lock(mutex_);
    LOCKSTEP_RETURN_IF_ERROR(WaitForRoom(lock, timeout_));
    DRef result = names_->Acquire(next_command_);
    LOCKSTEP_RETURN_IF_ERROR(
        Append([&](wire::Command::Builder command) { fill(command, result.id()); }));
    LOCKSTEP_RETURN_IF_ERROR(SendIfDue());
    return result;
  }

  // Appends a command that is answered by `from` (-1: all ranks), sends, and waits, all within the
  // session's time-out. Returns the body of the answer. After OK from rank 0, WorkerZeroIsIdle()
  // holds until the next command.
  template <typename Fill>
  StatusOr<control::Frame> Ask(Rank from, Fill&& fill) {
    const Deadline deadline = Deadline::After(timeout_);
    std::unique_lock lock(mutex_);
    LOCKSTEP_RETURN_IF_ERROR(WaitForRoom(lock, timeout_));
    LOCKSTEP_RETURN_IF_ERROR(Append(fill));
    return SendAndWait(lock, from, deadline);
  }

  // Tells one worker-0 from another.
  struct WorkerZero {
    uint64_t first_command = 1;  // that it was sent
    int pid = 0;
    bool operator==(const WorkerZero&) const = default;
  };
  WorkerZero IdentifyWorkerZero();
  // Worker-0, as it is now.
  Peer WorkerZeroPeer();
  // Ranks whose worker is a later one than the name of `ref`.
  std::vector<Rank> RanksThatLost(const DRef& ref);

  // What was copied through shared memory; the controller is told with the next batch.
  struct Copies {
    uint64_t operations = 0;
    uint64_t bytes = 0;
    std::chrono::nanoseconds duration{0};
  };
  enum class CopyDirection { kToWorker, kFromWorker };
  void NoteCopy(CopyDirection direction, uint64_t bytes, std::chrono::nanoseconds duration);

  // What the session's callers do, and what they wait for, is recorded here for a timeline.
  trace::Ring& ring() { return ring_; }
  // A copy by socket that is over: the worker counts it.
  void NoteCopyBySocket(uint64_t bytes, Deadline::Clock::time_point began, const Status& status);

  // True if worker-0 has executed every command issued so far.
  bool WorkerZeroIsIdle();
  // Takes in what has arrived. The session's error, if it has one.
  Status Look();

  Status Flush();

  // What the controller itself is asked (session_requests.cc).
  Status AwaitWorkers(std::chrono::milliseconds timeout);
  // Gives the register a name for other clients, and keeps it; a null `ref` takes the name back.
  Status Name(const DRef& ref, const std::string& name);
  // The register of that name, or null.
  DRef FindNamed(const std::string& name);
  std::string Ticket();
  // Leaves the session, which goes on without a client.
  Status Detach();
  Status Reset();
  Status Close();

 private:
  SessionCore(std::unique_ptr<Link> link, std::chrono::milliseconds timeout,
              const OutputCallback& on_output);
  void Listen(const OutputCallback& on_output);

  // All below: with mutex_ held.
  Status Usable();
  template <typename Fill>
  Status Append(Fill&& fill) {
    const control::BatchWriter::Mark before = writer_.mark();
    LOCKSTEP_RETURN_IF_ERROR(writer_.Add(fill));
    if (writer_.size_bytes() > facts().max_batch_bytes) [[unlikely]] {
      LOCKSTEP_RETURN_IF_ERROR(RemoveOversized(before));
      return Append(fill);
    }
    if (before.commands == 0) first_command_ = next_command_;
    ++next_command_;
    return OkStatus();
  }
  // Takes the command behind `before` back, and makes room for it by sending those before it. An
  // error if it does not fit into a batch of its own.
  Status RemoveOversized(const control::BatchWriter::Mark& before);
  Status SendIfDue();
  // Never waits: what was appended had room.
  Status SendBatch(RequestId request, Rank answer_from, std::chrono::milliseconds timeout = {});
  // Returns when a command may be appended; an error if that takes too long, or if none may be.
  Status WaitForRoom(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds timeout) {
    if (link_->flow().HasRoom(writer_.size_bytes())) [[likely]]
      return Usable();
    return WaitForCredit(lock, timeout);
  }
  Status WaitForCredit(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds timeout);
  void AppendKills();
  StatusOr<control::Frame> SendAndWait(std::unique_lock<std::mutex>& lock, Rank from,
                                       Deadline deadline);
  // Sends the message that `fill` writes, which the controller answers, and waits; a while longer
  // than `timeout`, which is the controller's.
  Status AskController(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds timeout,
                       absl::FunctionRef<void(wire::ClientMessage::Builder, RequestId)> fill);
  Status Await(std::unique_lock<std::mutex>& lock, RequestId request, PendingAnswer& answer,
               Deadline deadline);
  // Takes in what arrives until `over()`, or until the deadline (then false); gives the lock up
  // meanwhile.
  bool WaitUntil(std::unique_lock<std::mutex>& lock, Sleeper& sleeper,
                 absl::FunctionRef<bool()> over, Deadline deadline);

  // Returns when lines that came before are handed over; gives the lock up meanwhile.
  void AwaitOutput(std::unique_lock<std::mutex>& lock);

  // While a timeline is recorded: adds what has taken until now.
  void Record(trace::Event event, std::string_view name, trace::Kind kind,
              Deadline::Clock::time_point began, const Status& status = OkStatus());
  // A batch was sent; its commands were collected for `waited` before.
  void RecordBatch(Deadline::Clock::time_point began, Deadline::Clock::duration waited,
                   uint32_t commands, uint64_t bytes);
  void RecordWait(std::string_view name, Deadline::Clock::time_point began,
                  const Status& status = OkStatus()) {
    if (ring_.is_on()) Record({}, name, trace::Kind::kWait, began, status);
  }

  // Ends the threads; nothing is appended any more.
  void StopKeeper(std::unique_lock<std::mutex>& lock);
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
  // Begins anywhere: answers to a client that had the session before are not taken for this one's.
  uint64_t next_request_;
  Deadline::Clock::time_point last_send_;
  Deadline::Clock::time_point
      first_issued_;     // the first command in writer_, unless it left at once
  Copies copied_to_;     // since the last batch
  Copies copied_from_;   // the same
  bool closed_ = false;  // nothing is appended any more
  std::map<std::string, DRef> named_;

  int readers_ = 0;                           // threads in WaitUntil()
  std::unique_ptr<OutputListener> listener_;  // null: nobody asks for output
  trace::Ring ring_;                          // recorded to with mutex_ held

  std::condition_variable keeper_wake_;
  bool keeper_active_ = false;
  bool stopping_ = false;
  std::thread keeper_;
};

// Writes `arguments` as a command's argument list.
void WriteArguments(capnp::List<wire::Value>::Builder list, absl::Span<const Argument> arguments);

}  // namespace lockstep::client
