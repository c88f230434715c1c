#include "runtime/client/session_core.h"

#include <poll.h>

#include <algorithm>
#include <string>

#include "runtime/control/awake_phase.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/message_codec.h"
#include "schemas/session.capnp.h"

namespace lockstep::client {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A batch is sent when it has grown to this, ...
constexpr size_t kBatchBytes = size_t{48} << 10;
// ... when this much time has passed since the last one, ...
constexpr microseconds kPause{100};
// ... or by the keeper thread, which looks this often while there is something to send.
constexpr microseconds kKeeperInterval{500};
// How long a waiter stays awake before it sleeps (see InputWaiter).
constexpr microseconds kPollBeforeSleep{1000};
// The controller reports late workers itself; the client's own deadline is only for its silence.
constexpr milliseconds kGrace{2000};
// Work that was issued and not waited for may take this long when the session is closed.
constexpr milliseconds kLongestClose{30'000};

control::Frame BatchFrame(SessionId session, Generation generation, uint64_t first_command,
                          RequestId request, Rank answer_from, milliseconds timeout) {
  return control::EncodeMessage<wire::ClientMessage>([&](wire::ClientMessage::Builder message) {
    auto batch = message.initBatch();
    batch.setSession(session.value);
    batch.setGeneration(generation.value);
    batch.setFirstCommand(first_command);
    batch.setRequest(request.value);
    batch.setAnswerFrom(answer_from);
    batch.setTimeoutMillis(static_cast<uint64_t>(timeout.count()));
  });
}

}  // namespace

StatusOr<std::shared_ptr<SessionCore>> SessionCore::Open(
    const OpenRequest& request, milliseconds timeout,
    std::shared_ptr<control::ZmqContext> context) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Link> link, Link::Open(request, std::move(context)));
  return std::shared_ptr<SessionCore>(new SessionCore(std::move(link), timeout));
}

SessionCore::SessionCore(std::unique_ptr<Link> link, milliseconds timeout)
    : link_(std::move(link)),
      timeout_(timeout),
      names_(RegisterNames::Create(link_->facts().id)),
      keeper_([this] { Keep(); }) {}

SessionCore::~SessionCore() {
  (void)Close();
  names_->Unref();
}

Status SessionCore::CheckOwn(const DRef& ref, std::string_view what) const {
  if (ref.IsNull()) return InvalidArgument(what, " is a null DRef");
  if (ref.session() != facts().id) {
    return InvalidArgument(what, " (", ref.id(), ") belongs to session ", ref.session(),
                           ", not to this session ", facts().id);
  }
  return OkStatus();
}

Status SessionCore::Usable() {
  if (closed_) return FailedPrecondition("the session is closed");
  LOCKSTEP_RETURN_IF_ERROR(link_->Lost());
  return link_->Failed();
}

Status SessionCore::SendIfDue() {
  if (writer_.size_bytes() >= kBatchBytes || Deadline::Clock::now() - last_send_ >= kPause) {
    return SendBatch(RequestId(), -1);
  }
  if (!keeper_active_) {
    keeper_active_ = true;
    keeper_wake_.notify_one();
  }
  return OkStatus();
}

void SessionCore::AppendKills() {
  kills_.clear();
  names_->TakeKills(&kills_);
  if (kills_.empty()) return;
  Append([&](wire::Command::Builder command) {
    auto registers = command.initRelease().initRegisters(static_cast<unsigned>(kills_.size()));
    for (unsigned i = 0; i < registers.size(); ++i) registers.set(i, kills_[i]);
  });
}

Status SessionCore::SendBatch(RequestId request, Rank answer_from) {
  AppendKills();
  if (writer_.empty()) return OkStatus();
  const uint64_t cost = control::FlowCost(writer_.size_bytes());
  LOCKSTEP_RETURN_IF_ERROR(WaitForRoom(cost));
  const control::Frame header =
      BatchFrame(facts().id, link_->generation(), first_command_, request, answer_from, timeout_);
  link_->flow().Sent(cost);
  last_send_ = Deadline::Clock::now();
  return link_->Send({header, writer_.Take()});
}

Status SessionCore::WaitForRoom(uint64_t cost) {
  if (link_->flow().MaySend(cost)) return OkStatus();
  // What frees names is sent in a failed session too; nothing else is, so a new failure ends the
  // wait.
  const bool had_failed = !link_->Failed().ok();
  const Deadline deadline = Deadline::After(timeout_);
  control::InputWaiter waiter(kPollBeforeSleep);
  control::Channel* const channels[] = {&link_->channel()};
  while (true) {
    link_->Drain();
    if (link_->flow().MaySend(cost)) return OkStatus();
    LOCKSTEP_RETURN_IF_ERROR(link_->Lost());
    if (!had_failed) LOCKSTEP_RETURN_IF_ERROR(link_->Failed());
    if (deadline.Expired()) {
      return DeadlineExceeded("the workers have not taken a batch for ", timeout_.count(),
                              " ms; see `lockstep status` for who is behind");
    }
    const Deadline pause = Deadline::After(milliseconds(500)).Earlier(deadline);
    // The keeper cannot keep the lease while we hold the lock.
    if (!waiter.Wait(channels, {}, pause)) LOCKSTEP_RETURN_IF_ERROR(link_->SendKeepAlive());
  }
}

StatusOr<control::Frame> SessionCore::SendAndWait(std::unique_lock<std::mutex>& lock, Rank from) {
  const RequestId request(next_request_++);
  PendingAnswer answer;
  link_->Expect(request, &answer);
  const Status sent = SendBatch(request, from);
  if (!sent.ok()) {
    link_->Forget(request);
    return sent;
  }
  const uint64_t commands = next_command_;
  LOCKSTEP_RETURN_IF_ERROR(Await(lock, request, answer, Deadline::After(timeout_ + kGrace)));
  if (from <= 0) idle_after_ = std::max(idle_after_, commands);
  return std::move(answer.body);
}

Status SessionCore::Await(std::unique_lock<std::mutex>& lock, RequestId request,
                          PendingAnswer& answer, Deadline deadline) {
  thread_local control::AwakePhase awake(kPollBeforeSleep);
  awake.Begin();
  while (true) {
    link_->Drain();
    if (answer.done) return answer.error.ToStatus();
    const Status lost = link_->Lost();
    if (!lost.ok() || deadline.Expired()) {
      link_->Forget(request);
      LOCKSTEP_RETURN_IF_ERROR(lost);
      return DeadlineExceeded("the controller has not answered for ", timeout_.count(), " ms");
    }
    lock.unlock();
    const bool stay_awake = awake.Yield();
    lock.lock();
    if (stay_awake) continue;
    // Asleep: woken by input, or by another thread that received our answer.
    thread_local control::WakeUp wake_up;
    wake_up.Clear();
    answer.wake_fd = wake_up.fd();
    pollfd set[] = {{link_->wait_fd(), POLLIN, 0}, {wake_up.fd(), POLLIN, 0}};
    lock.unlock();
    poll(set, 2, std::min(500, deadline.RemainingMillis()));
    lock.lock();
    answer.wake_fd = -1;
  }
}

bool SessionCore::WorkerZeroIsIdle() {
  std::lock_guard lock(mutex_);
  if (idle_after_ != next_command_) return false;
  // A failure or a loss that has arrived is news for whoever copies.
  link_->Drain();
  return Usable().ok();
}

Status SessionCore::Flush() {
  std::lock_guard lock(mutex_);
  LOCKSTEP_RETURN_IF_ERROR(Usable());
  return SendBatch(RequestId(), -1);
}

Status SessionCore::AskController(std::unique_lock<std::mutex>& lock, RequestId request,
                                  const control::Frame& message, milliseconds timeout) {
  PendingAnswer answer;
  link_->Expect(request, &answer);
  const Status sent = link_->Send({message});
  if (!sent.ok()) {
    link_->Forget(request);
    return sent;
  }
  return Await(lock, request, answer, Deadline::After(timeout));
}

Status SessionCore::Reset() {
  std::unique_lock lock(mutex_);
  if (closed_) return FailedPrecondition("the session is closed");
  LOCKSTEP_RETURN_IF_ERROR(link_->Lost());
  // What was collected belongs to the failed work, but names dropped there must still be freed.
  LOCKSTEP_RETURN_IF_ERROR(SendBatch(RequestId(), -1));
  const Generation generation(link_->generation().value + 1);
  const RequestId request(next_request_++);
  const control::Frame message =
      control::EncodeMessage<wire::ClientMessage>([&](wire::ClientMessage::Builder builder) {
        auto reset = builder.initResetSession();
        reset.setSession(facts().id.value);
        reset.setGeneration(generation.value);
        reset.setRequest(request.value);
        reset.setTimeoutMillis(static_cast<uint64_t>(timeout_.count()));
      });
  link_->StartGeneration(generation);
  return AskController(lock, request, message, timeout_ + kGrace);
}

Status SessionCore::Close() {
  Status status;
  {
    std::unique_lock lock(mutex_);
    if (closed_) return OkStatus();
    closed_ = true;
    stopping_ = true;
    keeper_wake_.notify_all();
    status = link_->Lost();
    if (status.ok()) {
      const milliseconds timeout = std::min(timeout_, kLongestClose);
      const RequestId request(next_request_++);
      const control::Frame message =
          control::EncodeMessage<wire::ClientMessage>([&](wire::ClientMessage::Builder builder) {
            auto close = builder.initCloseSession();
            close.setSession(facts().id.value);
            close.setRequest(request.value);
            close.setTimeoutMillis(static_cast<uint64_t>(timeout.count()));
          });
      status = SendBatch(RequestId(), -1);
      status.Update(AskController(lock, request, message, timeout + kGrace));
    }
  }
  keeper_.join();
  return status;
}

void SessionCore::Keep() {
  std::unique_lock lock(mutex_);
  const auto keep_alive_every = link_->facts().lease / 4;
  auto next_keep_alive = Deadline::Clock::now() + keep_alive_every;
  while (!stopping_) {
    if (keeper_active_) {
      keeper_wake_.wait_for(lock, kKeeperInterval);
    } else {
      keeper_wake_.wait_until(lock, next_keep_alive);
    }
    if (stopping_) return;
    if (keeper_active_) {
      // An error shows up at the next call, which looks at the same state.
      keeper_active_ = !writer_.empty() && SendBatch(RequestId(), -1).ok();
    }
    if (Deadline::Clock::now() >= next_keep_alive) {
      (void)link_->SendKeepAlive();
      next_keep_alive = Deadline::Clock::now() + keep_alive_every;
    }
  }
}

}  // namespace lockstep::client
