// The state of a session that its Session object and its DRefs share.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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
#include "runtime/client/dref.h"
#include "runtime/client/fragment_traffic.h"
#include "runtime/client/link.h"
#include "runtime/client/open_batch.h"
#include "runtime/client/register_names.h"
#include "runtime/client/session_input.h"
#include "runtime/client/session_recorder.h"
#include "runtime/client/unpaired_messages.h"
#include "runtime/control/channel.h"
#include "runtime/fragment/fragment.h"
#include "runtime/fragment/known_calls.h"
#include "runtime/plan/known_programs.h"
#include "runtime/plan/plan_key.h"
#include "runtime/trace/ring.h"

namespace lockstep::client {

// The controller reports late workers itself; the client waits this much longer, and only then
// takes the controller to be silent.
constexpr std::chrono::milliseconds kAnswerGrace{2000};

// A call of a fragment, of which the workers are sent only the number once they know it.
struct SentCall {
  std::string encoded;  // as they read it
  // By which it was sent last, in whatever generation. Guarded by the session that sends it.
  mutable uint32_t number = 0;
};

// What was asked of workers by a command: from SessionCore::Pose() on until the answer was taken.
struct Question : PendingAnswer {
  RequestId request;
  Rank from = -1;  // who answers; -1: all ranks
  Deadline deadline = Deadline::At({});
  uint64_t commands = 0;  // those below are executed when it is answered
  bool over = true;       // no answer is waited for
};

// Batches commands, sends the batches, and waits for answers.
//
// A command that comes after a pause is sent at once (but see OpenBatch); commands in quick
// succession are collected and sent when the batch is full, when a caller waits, or by the keeper
// thread a moment later.
//
// Threads: safe; one mutex guards everything.
class SessionCore {
 public:
  // `on_output` of the request is called on a thread of its own; what was printed before a failure
  // is handed over before any call returns that.
  static StatusOr<std::shared_ptr<SessionCore>> Open(const OpenRequest& request,
                                                     std::chrono::milliseconds timeout,
                                                     std::shared_ptr<control::ZmqContext> context);
  // Over a session that is open.
  SessionCore(std::unique_ptr<Link> link, std::chrono::milliseconds timeout,
              const OutputCallback& on_output);
  ~SessionCore();

  const SessionFacts& facts() const { return link_->facts(); }
  // In rank order, as they are now.
  std::vector<Peer> Workers();
  std::chrono::milliseconds timeout() const { return timeout_; }

  // kInvalidArgument if there is no such rank.
  Status CheckRank(Rank rank) const;
  // kInvalidArgument if `ref` is null or of another session.
  Status CheckOwn(const DRef& ref, std::string_view what) const;

  // Appends the command that `fill` writes (it may be called twice). After an error nothing was
  // appended: the session's error if it cannot take any, kDeadlineExceeded if the workers are too
  // far behind for the session's time-out, kInvalidArgument for a command that is too large.
  template <typename Fill>
  Status Issue(Fill&& fill) {
    std::unique_lock lock(mutex_);
    LOCKSTEP_RETURN_IF_ERROR(WaitForRoom(lock, timeout_));
    LOCKSTEP_RETURN_IF_ERROR(batch_.Append(fill));
    return SendIfDue();
  }

  // Worker-0 takes back what it has lent under that name. That only has to come before the next
  // command: it rides along with that, as the kill list does. So it wakes no other thread, which
  // would take many times as long.
  Status EndLoan(RegisterId loan);

  // The same as Issue() for a command that gives its result a new name.
  template <typename Fill>
  StatusOr<DRef> IssueNaming(Fill&& fill) {
    return IssueNamingBy([&](control::BatchWriter& writer, RegisterId result) {
      return writer.Add([&](wire::Command::Builder command) { fill(command, result); });
    });
  }

  // The same for what `add` adds to the batch.
  template <typename Add>
  StatusOr<DRef> IssueNamingBy(Add&& add) {
    std::unique_lock lock(mutex_);
    LOCKSTEP_RETURN_IF_ERROR(WaitForRoom(lock, timeout_));
    DRef result = names_->Acquire(batch_.next_command());
    LOCKSTEP_RETURN_IF_ERROR(
        batch_.AppendBy([&](control::BatchWriter& writer) { return add(writer, result.id()); }));
    LOCKSTEP_RETURN_IF_ERROR(SendIfDue());
    return result;
  }

  // Both for the operation among workers that `use` says, which is numbered as they are:
  // kFailedPrecondition if it could never end (see UnpairedMessages). Before it worker-0 takes back
  // what it has lent under the name `loan`, if that is one, but not if nothing was appended.
  template <typename Fill>
  Status IssueOperation(const OperationUse& use, Fill&& fill, RegisterId loan = {}) {
    std::unique_lock lock(mutex_);
    LOCKSTEP_RETURN_IF_ERROR(WaitForRoom(lock, timeout_));
    LOCKSTEP_RETURN_IF_ERROR(EndLoanBefore(use, loan));
    LOCKSTEP_RETURN_IF_ERROR(AppendOperation(use, fill));
    return SendIfDue();
  }
  template <typename Fill>
  StatusOr<DRef> IssueOperationNaming(const OperationUse& use, Fill&& fill, RegisterId loan = {}) {
    std::unique_lock lock(mutex_);
    LOCKSTEP_RETURN_IF_ERROR(WaitForRoom(lock, timeout_));
    LOCKSTEP_RETURN_IF_ERROR(EndLoanBefore(use, loan));
    DRef result = names_->Acquire(batch_.next_command());
    LOCKSTEP_RETURN_IF_ERROR(
        AppendOperation(use, [&](wire::Command::Builder command) { fill(command, result.id()); }));
    LOCKSTEP_RETURN_IF_ERROR(SendIfDue());
    return result;
  }

  // For executions of plans: the same in that generation only; kFailedPrecondition if the session
  // was reset since.
  template <typename Fill>
  Status IssueOperationIn(Generation generation, const OperationUse& use, Fill&& fill) {
    std::unique_lock lock(mutex_);
    LOCKSTEP_RETURN_IF_ERROR(WaitForRoom(lock, timeout_));
    LOCKSTEP_RETURN_IF_ERROR(CheckGeneration(generation));
    LOCKSTEP_RETURN_IF_ERROR(AppendOperation(use, fill));
    plan_executions_.fetch_add(1, std::memory_order_relaxed);
    return SendIfDue();
  }
  // How often that was done. Outputs that a function returns are elsewhere after each.
  uint64_t plan_executions() const { return plan_executions_.load(std::memory_order_relaxed); }
  // ... and one that binds `program` and gives `count` registers new names. `fill` is told these,
  // and whether the workers know the program.
  template <typename Fill>
  StatusOr<std::vector<DRef>> IssueBindIn(Generation generation, const OperationUse& use,
                                          const plan::EncodedProgram& program, size_t count,
                                          Fill&& fill) {
    std::unique_lock lock(mutex_);
    LOCKSTEP_RETURN_IF_ERROR(WaitForRoom(lock, timeout_));
    LOCKSTEP_RETURN_IF_ERROR(CheckGeneration(generation));
    std::vector<DRef> results;
    for (size_t i = 0; i < count; ++i) results.push_back(names_->Acquire(batch_.next_command()));
    const bool is_known = programs_.Has(program);
    LOCKSTEP_RETURN_IF_ERROR(AppendOperation(use, [&](wire::Command::Builder command) {
      fill(command, absl::MakeConstSpan(results), is_known);
    }));
    programs_.NoteBound(program);
    LOCKSTEP_RETURN_IF_ERROR(SendIfDue());
    return results;
  }

  // Calls a fragment, in that generation only: kFailedPrecondition if the session was reset since
  // `fragment` was compiled. `fill` is told the call's number, whether the workers know it by that,
  // and the registers that receive `results`.
  template <typename Fill>
  StatusOr<std::vector<DRef>> IssueFragmentCallIn(Generation generation, const char* fragment,
                                                  const std::shared_ptr<const SentCall>& call,
                                                  absl::Span<const NewRegister> results,
                                                  Fill&& fill) {
    std::unique_lock lock(mutex_);
    LOCKSTEP_RETURN_IF_ERROR(WaitForRoom(lock, timeout_));
    if (link_->generation() != generation) [[unlikely]] {
      return FailedPrecondition("the session was reset since ", fragment,
                                " was compiled; compile it again");
    }
    std::vector<DRef> made;
    made.reserve(results.size());
    for (const NewRegister& result : results) {
      made.push_back(names_->Acquire(batch_.next_command(), result));
    }
    const auto* const known = calls_.Find(call->number);
    const bool is_known = known != nullptr && *known == call;
    if (!is_known) call->number = calls_.NumberOfNext(call->encoded.size());
    LOCKSTEP_RETURN_IF_ERROR(batch_.Append([&](wire::Command::Builder command) {
      fill(command, call->number, is_known, absl::MakeConstSpan(made));
    }));
    if (!is_known) calls_.Add(call, call->encoded.size());
    LOCKSTEP_RETURN_IF_ERROR(SendIfDue());
    return made;
  }

  // Appends a command that is answered by `from` (-1: all ranks), sends, and waits, all within the
  // session's time-out. Returns the body of the answer. After OK from rank 0, FindIdleWorkerZero()
  // finds it until the next command or reset. kFailedPrecondition, and nothing is appended, if
  // `from` waits for a message whose other half this thread has yet to issue.
  template <typename Fill>
  StatusOr<control::Frame> Ask(Rank from, Fill&& fill) {
    Question question;
    std::unique_lock lock(mutex_);
    LOCKSTEP_RETURN_IF_ERROR(CheckWait(lock, from));
    LOCKSTEP_RETURN_IF_ERROR(MakeRoom(lock, from, question));
    return AskLocked(lock, fill, question);
  }

  // The same for a command that gives a register its first value; `*made` is its new name.
  template <typename Fill>
  StatusOr<control::Frame> AskNaming(Rank from, DRef* made, Fill&& fill) {
    Question question;
    std::unique_lock lock(mutex_);
    LOCKSTEP_RETURN_IF_ERROR(CheckWait(lock, from));
    LOCKSTEP_RETURN_IF_ERROR(MakeRoom(lock, from, question));
    *made = names_->Acquire(batch_.next_command());
    const auto write = [&](wire::Command::Builder command) { fill(command, made->id()); };
    return AskLocked(lock, write, question);
  }

  // The same in steps, for who does something else meanwhile. Pose() sends; `question` stays where
  // it is until it is over, or was given up. AwaitAnswer() waits for what is left of the time-out;
  // kFailedPrecondition may come before: then the question is not over.
  template <typename Fill>
  Status Pose(Rank from, Fill&& fill, Question& question) {
    std::unique_lock lock(mutex_);
    LOCKSTEP_RETURN_IF_ERROR(MakeRoom(lock, from, question));
    return SendQuestion(fill, question);
  }
  // Whether AwaitAnswer() would not wait. Takes in what has arrived.
  bool IsDecided(const Question& question);
  StatusOr<control::Frame> AwaitAnswer(Question& question);
  void GiveUp(Question& question);

  // Tells one worker-0 from another.
  struct WorkerZero {
    uint64_t first_command = 1;  // that it was sent
    int pid = 0;
    bool operator==(const WorkerZero&) const = default;
  };
  WorkerZero IdentifyWorkerZero();
  // Worker-0, as it is now.
  Peer WorkerZeroPeer();
  // The layout that is kept with a register's name; of this session's. Null: it is not known here.
  void SetLayout(const DRef& ref, std::shared_ptr<const plan::Layout> layout) {
    names_->SetLayout(ref, std::move(layout));
  }
  bool ForgetLayout(const DRef& ref) { return names_->ForgetLayout(ref); }
  std::shared_ptr<const plan::Layout> LayoutOf(const DRef& ref) const {
    return names_->LayoutOf(ref);
  }
  bool HasLayout(const DRef& ref, const plan::Layout* layout) const {
    return names_->HasLayout(ref, layout);
  }
  std::shared_ptr<const std::vector<Rank>> HoldersOf(const DRef& ref) const {
    return names_->HoldersOf(ref);
  }
  bool MayHaveForeignLayout(const DRef& ref) const { return names_->MayHaveForeignLayout(ref); }
  void SetToldLayout(const DRef& ref, std::shared_ptr<const plan::Layout> layout) {
    names_->SetToldLayout(ref, std::move(layout));
  }
  // What was brought into another layout, and is kept for the next who wants it so, and what makes
  // it useless: see RegisterNames. Null: it is not there.
  DRef CopyOf(const DRef& ref, const plan::Layout& layout, Generation generation) const {
    return names_->FindRelaid(ref, layout, generation);
  }
  WriteCount WritesTo(const DRef& ref) { return names_->WritesTo(ref); }
  void KeepCopy(const DRef& ref, const DRef& copy, Generation generation, WriteCount writes) {
    names_->KeepRelaid(ref, copy, generation, writes);
  }
  void DropCopies(const DRef& ref) { names_->DropRelaid(ref); }
  void NoteFunctionCall() { names_->NoteFunctionCall(); }
  void NoteKnownToFunctions(const DRef& ref) { names_->NoteKnownToFunctions(ref); }
  // A function that is called is given it, and may write to it. Before and after the call.
  void NoteGivenToFunction(const DRef& ref) {
    NoteKnownToFunctions(ref);
    DropCopies(ref);
  }
  FragmentTrafficCounts& fragment_traffic() { return fragment_traffic_; }
  // Ranks whose worker is a later one than the name of `ref`.
  std::vector<Rank> RanksThatLost(const DRef& ref);

  // What the client has copied itself; the controller is told with the next batch.
  void NoteCopy(CopyDirection direction, uint64_t bytes, std::chrono::nanoseconds duration);

  // What the session's callers do, and what they wait for, is recorded here for a timeline.
  trace::Ring& ring() { return recorder_.ring(); }
  // A copy by socket that is over: the worker counts it.
  void NoteCopyBySocket(uint64_t bytes, Deadline::Clock::time_point began, const Status& status);

  // The last that was begun here, whether its reset is acknowledged or not.
  Generation generation();
  // Worker-0, if it has executed every command issued so far, and the session is still in that
  // generation and well, as far as it was told a moment ago.
  std::optional<WorkerZero> FindIdleWorkerZero(Generation generation,
                                               Deadline::Clock::time_point now);
  // Takes in what has arrived. The session's error, if it has one.
  Status Look();

  Status Flush();

  // What the controller itself is asked.
  Status AwaitWorkers(std::chrono::milliseconds timeout);
  // Gives the register a name for other clients, and keeps it; a null `ref` takes the name back.
  Status Name(const DRef& ref, const std::string& name);
  // Has all workers compile the fragment, in the generation that is told. Returns the body of the
  // answer: a FragmentLoaded of each rank. An error is the fragment's, not the session's.
  StatusOr<control::Frame> CompileFragment(const fragment::Fragment& fragment,
                                           Generation* generation);
  // The register of that name, or null.
  DRef FindNamed(const std::string& name);
  std::string Ticket();
  // Leaves the session, which goes on without a client. Neither this nor Close() is done while a
  // message has no other half: kFailedPrecondition.
  Status Detach();
  Status Reset();
  Status Close();

 private:
  // All below: with mutex_ held.
  // Without a look at the clock a controller that has become silent is not known.
  Status Usable(bool looks_at_clock = true) const;
  WorkerZero WorkerZeroNow() const;
  // The same for a call that returns the error to the program: lines that came before it are
  // handed over first, also if another thread has read both.
  Status CheckUsable(std::unique_lock<std::mutex>& lock, bool looks_at_clock = true);
  Status SendIfDue();
  Status CheckGeneration(Generation generation) const;
  template <typename Fill>
  Status AppendOperation(const OperationUse& use, Fill&& fill) {
    LOCKSTEP_RETURN_IF_ERROR(unpaired_.CheckOperation(use));
    LOCKSTEP_RETURN_IF_ERROR(batch_.Append(fill));
    unpaired_.Add(use, batch_.next_command() - 1);
    return OkStatus();
  }
  Status EndLoanBefore(const OperationUse& use, RegisterId loan) {
    if (loan.IsNone()) [[likely]]
      return OkStatus();
    LOCKSTEP_RETURN_IF_ERROR(unpaired_.CheckOperation(use));
    return AppendEndOfLoan(loan);
  }
  Status AppendEndOfLoan(RegisterId loan);
  // OK if a wait for `rank` (-1: for all) can end; else the session's error, if it has one.
  Status CheckWait(std::unique_lock<std::mutex>& lock, Rank rank) {
    if (unpaired_.IsEmpty()) [[likely]]
      return OkStatus();
    LOCKSTEP_RETURN_IF_ERROR(LookAgain(lock));
    return unpaired_.CheckWait(rank);
  }
  // Takes in what has arrived. The session's error, if it has one.
  Status LookAgain(std::unique_lock<std::mutex>& lock) {
    link_->Drain();
    return CheckUsable(lock);
  }
  // Returns when a command may be appended; an error if that takes too long, or if none may be.
  Status WaitForRoom(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds timeout) {
    if (!link_->flow().HasRoom(batch_.size_bytes())) [[unlikely]]
      return WaitForCredit(lock, timeout);
    return CheckUsable(lock, !batch_.skips_clock());
  }
  Status WaitForCredit(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds timeout);
  Status MakeRoom(std::unique_lock<std::mutex>& lock, Rank from, Question& question) {
    question.from = from;
    question.deadline = Deadline::After(timeout_);
    LOCKSTEP_RETURN_IF_ERROR(WaitForRoom(lock, timeout_));
    return batch_.skips_clock() ? CheckUsable(lock) : OkStatus();
  }
  template <typename Fill>
  Status SendQuestion(Fill&& fill, Question& question) {
    LOCKSTEP_RETURN_IF_ERROR(batch_.Append(fill));
    return SendQuestion(question);
  }
  // Looks for the answer from before the question is sent, since it may come at once.
  template <typename Fill>
  StatusOr<control::Frame> AskLocked(std::unique_lock<std::mutex>& lock, Fill&& fill,
                                     Question& question) {
    {
      const Link::Looking looking(*link_);
      LOCKSTEP_RETURN_IF_ERROR(SendQuestion(fill, question));
      AwaitEnd(lock, question, question.deadline);
    }
    return TakeAnswer(lock, question);
  }
  // What was appended last is it. After an error (the lease has ended since MakeRoom() looked) that
  // is taken back: its answer would be taken for that to another question in the same batch.
  Status SendQuestion(Question& question);
  StatusOr<control::Frame> TakeAnswer(std::unique_lock<std::mutex>& lock, Question& question);
  // Sends the message that `fill` writes, which the controller answers, and waits; a while longer
  // than `timeout`, which is the controller's.
  using FillRequest = absl::FunctionRef<void(wire::ClientMessage::Builder, RequestId)>;
  Status AskController(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds timeout,
                       FillRequest fill);
  // The same with a second frame, if there is one; returns the answer's body.
  StatusOr<control::Frame> AskControllerWith(std::unique_lock<std::mutex>& lock,
                                             std::chrono::milliseconds timeout, FillRequest fill,
                                             const control::Frame* attached);
  // Until it has come, none can come any more, or the deadline.
  void AwaitEnd(std::unique_lock<std::mutex>& lock, PendingAnswer& answer, Deadline deadline);
  // Then: what has come, or why nothing has.
  Status Conclude(std::unique_lock<std::mutex>& lock, RequestId request, PendingAnswer& answer);
  Status ResetWithin(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds timeout);
  // Ends the threads; nothing is appended any more.
  void StopKeeper(std::unique_lock<std::mutex>& lock);
  // The keeper thread: sends what is left over, and keeps the session's lease.
  void Keep();

  std::mutex mutex_;
  const std::unique_ptr<Link> link_;
  const std::chrono::milliseconds timeout_;
  RegisterNames* const names_;
  SessionRecorder recorder_;  // with mutex_ held
  OpenBatch batch_;
  UnpairedMessages unpaired_;                                    // of this generation
  plan::KnownPrograms programs_;                                 // the same
  fragment::KnownCalls<std::shared_ptr<const SentCall>> calls_;  // the same
  FragmentTrafficCounts fragment_traffic_;
  SessionInput input_;
  std::atomic<uint64_t> plan_executions_{0};  // written with mutex_ held
  uint64_t idle_after_ = 0;  // worker-0 had executed all below this when it last answered
  Deadline::Clock::time_point looked_at_;  // when FindIdleWorkerZero() has looked for news
  // Begins anywhere: answers to a client that had the session before are not taken for this one's.
  uint64_t next_request_;
  bool closed_ = false;  // nothing is appended any more
  std::map<std::string, DRef> named_;

  std::condition_variable keeper_wake_;
  bool keeper_active_ = false;
  bool stopping_ = false;
  std::thread keeper_;
};

}  // namespace lockstep::client
