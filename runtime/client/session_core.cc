#include "runtime/client/session_core.h"

#include <algorithm>
#include <string>

#include "runtime/base/random.h"
#include "runtime/control/message_codec.h"
#include "schemas/session.capnp.h"

namespace lockstep::client {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// The keeper thread looks this often while there is something to send.
constexpr microseconds kKeeperInterval{500};
// Copies that need no message look so often whether there is one all the same.
constexpr microseconds kCopiesLookEvery{100};
// Work that was issued and not waited for may take this long when the session is closed.
constexpr milliseconds kLongestClose{30'000};

}  // namespace

StatusOr<std::shared_ptr<SessionCore>> SessionCore::Open(
    const OpenRequest& request, milliseconds timeout,
    std::shared_ptr<control::ZmqContext> context) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Link> link, Link::Open(request, std::move(context)));
  return std::shared_ptr<SessionCore>(new SessionCore(std::move(link), timeout, request.on_output));
}

SessionCore::SessionCore(std::unique_ptr<Link> link, milliseconds timeout,
                         const OutputCallback& on_output)
    : link_(std::move(link)),
      timeout_(timeout),
      names_(RegisterNames::Continue(link_->facts().id, link_->start().register_generations)),
      recorder_(link_->facts().id),
      batch_(*link_, *names_, recorder_),
      unpaired_(link_->facts().num_workers, link_->facts().num_groups),
      input_(mutex_, *link_),
      next_request_(RandomNumber() >> 16) {
  // The latest of each place first: what is older names nothing any more.
  std::vector<std::pair<std::string, control::NamedRegister>> named(link_->start().names.begin(),
                                                                    link_->start().names.end());
  std::sort(named.begin(), named.end(), [](const auto& a, const auto& b) {
    return a.second.id.generation > b.second.id.generation;
  });
  for (const auto& [name, found] : named) {
    DRef ref = names_->Adopt(found.id, found.named_by);
    if (!ref.IsNull()) named_[name] = std::move(ref);
  }
  if (on_output != nullptr) input_.StartOutput(on_output);
  keeper_ = std::thread([this] { Keep(); });
}

SessionCore::~SessionCore() {
  {
    std::unique_lock lock(mutex_);
    // Ranks that wait for the other half would hold up all sessions until the collective_timeout.
    const bool holds_up = !closed_ && !unpaired_.IsEmpty() && Usable().ok();
    if (holds_up) (void)ResetWithin(lock, std::min(timeout_, kLongestClose));
  }
  (void)Close();
  named_.clear();
  names_->Unref();
}

Status SessionCore::CheckRank(Rank rank) const {
  const int num_workers = facts().num_workers;
  if (rank >= 0 && rank < num_workers) return OkStatus();
  return InvalidArgument("there is no rank ", rank, "; the ranks are 0 to ", num_workers - 1);
}

Status SessionCore::CheckOwn(const DRef& ref, std::string_view what) const {
  if (ref.IsNull()) return InvalidArgument(what, " is a null DRef");
  if (ref.name_->owner == names_) [[likely]]
    return OkStatus();
  // Every controller counts its sessions from 1.
  const bool other_cluster = ref.session() == facts().id;
  return InvalidArgument(what, " (", ref.id(), ") belongs to session ", ref.session(),
                         other_cluster ? " of another cluster" : "", ", not to this session ",
                         facts().id);
}

Status SessionCore::Usable(bool looks_at_clock) const {
  if (closed_) return FailedPrecondition("the session is closed");
  LOCKSTEP_RETURN_IF_ERROR(looks_at_clock ? link_->Lost() : link_->KnownLost());
  return link_->Failed();
}

Status SessionCore::CheckUsable(std::unique_lock<std::mutex>& lock, bool looks_at_clock) {
  Status status = Usable(looks_at_clock);
  if (!status.ok()) [[unlikely]]
    input_.AwaitOutput(lock);
  return status;
}

Status SessionCore::CheckGeneration(Generation generation) const {
  if (link_->generation() == generation) [[likely]]
    return OkStatus();
  return FailedPrecondition("the session was reset since the plan was bound; bind it again");
}

Status SessionCore::SendIfDue() {
  bool waits = false;
  LOCKSTEP_RETURN_IF_ERROR(batch_.SendIfDue(&waits));
  if (waits && !keeper_active_) {
    keeper_active_ = true;
    keeper_wake_.notify_one();
  }
  return OkStatus();
}

Status SessionCore::WaitForCredit(std::unique_lock<std::mutex>& lock, milliseconds timeout) {
  LOCKSTEP_RETURN_IF_ERROR(CheckUsable(lock));
  // Only what was sent can be consumed.
  LOCKSTEP_RETURN_IF_ERROR(batch_.Send());
  const Generation generation = link_->generation();
  const auto began = Deadline::Clock::now();
  Sleeper sleeper;
  link_->AwaitRoom(&sleeper);
  const bool in_time = input_.WaitUntil(
      lock, sleeper,
      [&] {
        return link_->flow().HasRoom(batch_.size_bytes()) || !Usable().ok() ||
               link_->generation() != generation;
      },
      Deadline::After(timeout));
  link_->StopAwaitingRoom(&sleeper);
  recorder_.RecordWait("wait for the workers to catch up", began);
  LOCKSTEP_RETURN_IF_ERROR(CheckUsable(lock));
  if (link_->generation() != generation) {
    return Aborted("session ", facts().id, " was reset while this call waited for the workers");
  }
  if (in_time) return OkStatus();
  return DeadlineExceeded("the workers have not taken what was sent for ", timeout.count(),
                          " ms; `lockstep why` tells which rank is behind, and why");
}

Status SessionCore::SendQuestion(Question& question) {
  question.request = RequestId(next_request_++);
  link_->Expect(question.request, &question);
  const auto left =
      std::max(milliseconds(1), std::chrono::ceil<milliseconds>(question.deadline.Remaining()));
  const Status sent = batch_.Send(question.request, question.from, left);
  if (!sent.ok()) {
    batch_.TakeBackLast();
    link_->Forget(question.request);
    return sent;
  }
  question.deadline = Deadline::After(left + kAnswerGrace);
  question.commands = batch_.next_command();
  question.over = false;
  return OkStatus();
}

StatusOr<control::Frame> SessionCore::TakeAnswer(std::unique_lock<std::mutex>& lock,
                                                 Question& question) {
  question.over = true;
  LOCKSTEP_RETURN_IF_ERROR(Conclude(lock, question.request, question));
  if (question.from <= 0) idle_after_ = std::max(idle_after_, question.commands);
  return std::move(question.body);
}

StatusOr<control::Frame> SessionCore::AwaitAnswer(Question& question) {
  std::unique_lock lock(mutex_);
  // The answer may be there, and the session have failed since.
  link_->Drain();
  if (!question.done) LOCKSTEP_RETURN_IF_ERROR(unpaired_.CheckWait(question.from));
  AwaitEnd(lock, question, question.deadline);
  return TakeAnswer(lock, question);
}

bool SessionCore::IsDecided(const Question& question) {
  std::lock_guard lock(mutex_);
  link_->Drain();
  return question.done || stopping_ || question.deadline.Expired() || !link_->Lost().ok();
}

void SessionCore::GiveUp(Question& question) {
  std::lock_guard lock(mutex_);
  if (!std::exchange(question.over, true)) link_->Forget(question.request);
}

void SessionCore::AwaitEnd(std::unique_lock<std::mutex>& lock, PendingAnswer& answer,
                           Deadline deadline) {
  const auto began = Deadline::Clock::now();
  (void)input_.WaitUntil(
      lock, answer, [&] { return answer.done || stopping_ || !link_->Lost().ok(); }, deadline);
  recorder_.RecordWait("wait for an answer", began,
                       answer.done ? answer.error.ToStatus() : OkStatus());
}

Status SessionCore::Conclude(std::unique_lock<std::mutex>& lock, RequestId request,
                             PendingAnswer& answer) {
  if (answer.done) {
    input_.AwaitOutput(lock);
    return answer.error.ToStatus();
  }
  link_->Forget(request);
  if (stopping_) return FailedPrecondition("the session was closed before the answer came");
  LOCKSTEP_RETURN_IF_ERROR(link_->Lost());
  return DeadlineExceeded("the controller has not answered for ", timeout_.count(), " ms");
}

void SessionCore::NoteCopy(CopyDirection direction, uint64_t bytes,
                           std::chrono::nanoseconds duration) {
  std::lock_guard lock(mutex_);
  batch_.AddCopy(direction, bytes, duration);
  if (!recorder_.is_on()) return;
  trace::Event event;
  event.bytes = bytes;
  recorder_.Record(
      event, direction == CopyDirection::kToWorker ? "copy to worker-0" : "copy from worker-0",
      trace::Kind::kCopy, Deadline::Clock::now() - duration);
}

void SessionCore::NoteCopyBySocket(uint64_t bytes, Deadline::Clock::time_point began,
                                   const Status& status) {
  std::lock_guard lock(mutex_);
  if (!recorder_.is_on()) return;
  trace::Event event;
  event.bytes = bytes;
  recorder_.Record(event, "copy by socket", trace::Kind::kCopy, began, status);
}

Generation SessionCore::generation() {
  std::lock_guard lock(mutex_);
  return link_->generation();
}

std::optional<SessionCore::WorkerZero> SessionCore::FindIdleWorkerZero(
    Generation generation, Deadline::Clock::time_point now) {
  std::lock_guard lock(mutex_);
  if (idle_after_ != batch_.next_command() || generation != link_->generation()) return {};
  // A failure or a loss that has arrived is news for whoever copies. To look for it is a system
  // call, which takes longer than a small copy.
  if (now - looked_at_ >= kCopiesLookEvery) {
    looked_at_ = now;
    link_->Drain();
  }
  if (!Usable().ok()) return {};
  return WorkerZeroNow();
}

Status SessionCore::Look() {
  std::unique_lock lock(mutex_);
  return LookAgain(lock);
}

Status SessionCore::Flush() {
  std::unique_lock lock(mutex_);
  LOCKSTEP_RETURN_IF_ERROR(CheckUsable(lock));
  return batch_.Send();
}

void SessionCore::StopKeeper(std::unique_lock<std::mutex>& lock) {
  closed_ = true;
  stopping_ = true;
  keeper_wake_.notify_all();
  lock.unlock();
  input_.StopOutput();
  keeper_.join();
}

std::vector<Peer> SessionCore::Workers() {
  std::lock_guard lock(mutex_);
  link_->Drain();
  return link_->workers();
}

Status SessionCore::EndLoan(RegisterId loan) {
  std::unique_lock lock(mutex_);
  LOCKSTEP_RETURN_IF_ERROR(WaitForRoom(lock, timeout_));
  return AppendEndOfLoan(loan);
}

Status SessionCore::AppendEndOfLoan(RegisterId loan) {
  return batch_.Append([&](wire::Command::Builder command) {
    command.setOnlyRank(0);
    command.setEndLoan(loan.Packed());
  });
}

SessionCore::WorkerZero SessionCore::IdentifyWorkerZero() {
  std::lock_guard lock(mutex_);
  return WorkerZeroNow();
}

SessionCore::WorkerZero SessionCore::WorkerZeroNow() const {
  const auto replaced = link_->replaced().find(0);
  return {replaced == link_->replaced().end() ? 1 : replaced->second, link_->workers().front().pid};
}

Peer SessionCore::WorkerZeroPeer() {
  std::lock_guard lock(mutex_);
  return link_->workers().front();
}

std::vector<Rank> SessionCore::RanksThatLost(const DRef& ref) {
  std::vector<Rank> ranks;
  std::lock_guard lock(mutex_);
  link_->Drain();
  for (const auto& [rank, first_command] : link_->replaced()) {
    if (ref.name_->named_by < first_command) ranks.push_back(rank);
  }
  return ranks;
}

void SessionCore::Keep() {
  std::unique_lock lock(mutex_);
  const auto keep_alive_every = link_->longest_round();
  auto next_keep_alive = Deadline::Clock::now() + keep_alive_every;
  while (!stopping_) {
    if (keeper_active_) {
      keeper_wake_.wait_until(lock, batch_.waits_since() + kKeeperInterval);
    } else {
      keeper_wake_.wait_until(lock, next_keep_alive);
    }
    link_->NoteRound();
    if (stopping_) return;
    // What is younger, because others have left with a batch of their own, waits its own time. It
    // also stays for that time when nothing is left: a program that waits after each command would
    // otherwise have to wake it for each, which costs more than the command.
    const bool is_due = Deadline::Clock::now() >= batch_.waits_since() + kKeeperInterval;
    if (keeper_active_ && is_due) {
      keeper_active_ = false;
      // If this fails the session is lost, as the next call will say, or is tried again below.
      (void)batch_.Send();
    }
    if (Deadline::Clock::now() >= next_keep_alive) {
      (void)link_->SendKeepAlive();
      // What could not be sent, if the controller is heard again.
      if (!keeper_active_ && batch_.size_bytes() > 0) (void)batch_.Send();
      next_keep_alive = Deadline::Clock::now() + keep_alive_every;
    }
  }
}

// --- Requests to the controller itself --------------------------------------------------------

Status SessionCore::AskController(std::unique_lock<std::mutex>& lock, milliseconds timeout,
                                  FillRequest fill) {
  return AskControllerWith(lock, timeout, fill, nullptr).status();
}

StatusOr<control::Frame> SessionCore::AskControllerWith(std::unique_lock<std::mutex>& lock,
                                                        milliseconds timeout, FillRequest fill,
                                                        const control::Frame* attached) {
  const RequestId request(next_request_++);
  PendingAnswer answer;
  link_->Expect(request, &answer);
  control::Message question = {control::EncodeMessage<wire::ClientMessage>(
      [&](wire::ClientMessage::Builder message) { fill(message, request); })};
  if (attached != nullptr) question.push_back(*attached);
  const Deadline deadline = Deadline::After(timeout + kAnswerGrace);
  {
    const Link::Looking looking(*link_);
    const Status sent = link_->Send(question);
    if (!sent.ok()) {
      link_->Forget(request);
      return sent;
    }
    AwaitEnd(lock, answer, deadline);
  }
  LOCKSTEP_RETURN_IF_ERROR(Conclude(lock, request, answer));
  return std::move(answer.body);
}

Status SessionCore::AwaitWorkers(milliseconds timeout) {
  const Deadline deadline = Deadline::After(timeout);
  std::unique_lock lock(mutex_);
  if (closed_) return FailedPrecondition("the session is closed");
  Sleeper sleeper;
  while (true) {
    // A controller that is gone may be started again, and then again.
    (void)input_.WaitUntil(
        lock, sleeper, [&] { return link_->Lost().ok() || !link_->Over().ok(); }, deadline);
    LOCKSTEP_RETURN_IF_ERROR(link_->Lost());
    const auto left = std::chrono::ceil<milliseconds>(deadline.Remaining());
    const Epoch controller = facts().controller;
    const Status status =
        AskController(lock, left, [&](wire::ClientMessage::Builder message, RequestId request) {
          auto await = message.initAwaitWorkers();
          await.setSession(facts().id.value);
          await.setRequest(request.value);
          await.setTimeoutMillis(static_cast<uint64_t>(left.count()));
        });
    LOCKSTEP_RETURN_IF_ERROR(link_->Over());
    const bool same_controller = link_->Lost().ok() && facts().controller == controller;
    if (same_controller || deadline.Expired()) return status;
  }
}

Status SessionCore::Reset() {
  std::unique_lock lock(mutex_);
  return ResetWithin(lock, timeout_);
}

Status SessionCore::ResetWithin(std::unique_lock<std::mutex>& lock, milliseconds timeout) {
  if (closed_) return FailedPrecondition("the session is closed");
  LOCKSTEP_RETURN_IF_ERROR(link_->Lost());
  // What was collected belongs to the work that ends, but names dropped there must still be freed.
  LOCKSTEP_RETURN_IF_ERROR(batch_.Send());
  const Generation generation(link_->generation().value + 1);
  link_->StartGeneration(generation);
  unpaired_.Clear();
  programs_.Clear();
  calls_.Clear();
  const Status answered =
      AskController(lock, timeout, [&](wire::ClientMessage::Builder message, RequestId request) {
        auto reset = message.initResetSession();
        reset.setSession(facts().id.value);
        reset.setGeneration(generation.value);
        reset.setNextCommand(batch_.next_command());
        reset.setSentBytes(link_->flow().sent());
        reset.setRequest(request.value);
        reset.setTimeoutMillis(static_cast<uint64_t>(timeout.count()));
      });
  // It may have been lost, or refused: then the workers skip what comes in that generation.
  link_->EndReset(generation, answered);
  return answered;
}

Status SessionCore::Name(const DRef& ref, const std::string& name) {
  std::unique_lock lock(mutex_);
  LOCKSTEP_RETURN_IF_ERROR(CheckUsable(lock));
  LOCKSTEP_RETURN_IF_ERROR(CheckWait(lock, -1));
  // Whoever finds the name finds the register as it is now.
  LOCKSTEP_RETURN_IF_ERROR(batch_.Send());
  LOCKSTEP_RETURN_IF_ERROR(
      AskController(lock, timeout_, [&](wire::ClientMessage::Builder message, RequestId request) {
        auto named = message.initNameRegister();
        named.setSession(facts().id.value);
        named.setRequest(request.value);
        named.setTimeoutMillis(static_cast<uint64_t>(timeout_.count()));
        named.setNextCommand(batch_.next_command());
        named.initName().setName(name);
        named.getName().setRegister(ref.id().Packed());
        if (!ref.IsNull()) named.getName().setNamedBy(ref.name_->named_by);
      }));
  if (ref.IsNull()) {
    named_.erase(name);
  } else {
    named_[name] = ref;
  }
  return OkStatus();
}

StatusOr<control::Frame> SessionCore::CompileFragment(const fragment::Fragment& fragment,
                                                      Generation* generation) {
  std::unique_lock lock(mutex_);
  LOCKSTEP_RETURN_IF_ERROR(CheckUsable(lock));
  LOCKSTEP_RETURN_IF_ERROR(CheckWait(lock, -1));
  LOCKSTEP_RETURN_IF_ERROR(batch_.Send());
  *generation = link_->generation();
  const control::Frame source =
      control::Frame::Copy(fragment.source().data(), fragment.source().size());
  return AskControllerWith(
      lock, timeout_,
      [&](wire::ClientMessage::Builder message, RequestId request) {
        auto compile = message.initCompileFragment();
        compile.setSession(facts().id.value);
        compile.setRequest(request.value);
        compile.setTimeoutMillis(static_cast<uint64_t>(timeout_.count()));
        compile.setNextCommand(batch_.next_command());
        compile.setKind(static_cast<wire::FragmentKind>(fragment.kind()));
        compile.setName(fragment.name());
        compile.setEntry(fragment.entry());
      },
      &source);
}

DRef SessionCore::FindNamed(const std::string& name) {
  std::lock_guard lock(mutex_);
  const auto found = named_.find(name);
  return found == named_.end() ? DRef() : found->second;
}

std::string SessionCore::Ticket() {
  std::lock_guard lock(mutex_);
  return TicketOf(facts());
}

Status SessionCore::Detach() {
  std::unique_lock lock(mutex_);
  LOCKSTEP_RETURN_IF_ERROR(CheckUsable(lock));
  LOCKSTEP_RETURN_IF_ERROR(unpaired_.CheckEnd());
  LOCKSTEP_RETURN_IF_ERROR(batch_.Send());
  // What another thread would issue from here on could reach nobody.
  closed_ = true;
  link_->WakeRoomSleepers();
  const Status detached =
      AskController(lock, timeout_, [&](wire::ClientMessage::Builder message, RequestId request) {
        auto detach = message.initDetachSession();
        detach.setSession(facts().id.value);
        detach.setRequest(request.value);
      });
  if (!detached.ok()) {
    closed_ = false;
    return detached;
  }
  StopKeeper(lock);
  return OkStatus();
}

Status SessionCore::Close() {
  std::unique_lock lock(mutex_);
  if (closed_) return OkStatus();
  // A failed session's work ends without it.
  if (!unpaired_.IsEmpty() && LookAgain(lock).ok()) LOCKSTEP_RETURN_IF_ERROR(unpaired_.CheckEnd());
  // Another thread may have closed it meanwhile.
  if (closed_) return OkStatus();
  closed_ = true;
  link_->WakeRoomSleepers();
  Status status = link_->Lost();
  if (status.ok()) {
    const milliseconds timeout = std::min(timeout_, kLongestClose);
    status = batch_.Send();
    status.Update(
        AskController(lock, timeout, [&](wire::ClientMessage::Builder message, RequestId request) {
          auto close = message.initCloseSession();
          close.setSession(facts().id.value);
          close.setRequest(request.value);
          close.setTimeoutMillis(static_cast<uint64_t>(timeout.count()));
          close.setNextCommand(batch_.next_command());
        }));
  }
  // Only now: until then the keeper keeps the lease.
  StopKeeper(lock);
  return status;
}

}  // namespace lockstep::client
