#include "runtime/client/session_core.h"

#include <poll.h>

#include <algorithm>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "runtime/base/random.h"
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

void WriteCopies(const SessionCore::Copies& copies, wire::Copies::Builder builder) {
  builder.setOperations(copies.operations);
  builder.setBytes(copies.bytes);
  builder.setNanos(static_cast<uint64_t>(copies.duration.count()));
}

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
      next_command_(link_->start().next_command),
      first_command_(next_command_),
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
  if (on_output != nullptr) Listen(on_output);
  keeper_ = std::thread([this] { Keep(); });
}

void SessionCore::Listen(const OutputCallback& on_output) {
  OutputListener::Source source;
  source.wait_fd = link_->wait_fd();
  source.look = [this] {
    std::lock_guard lock(mutex_);
    link_->Drain();
    return readers_ == 0;
  };
  source.taken = [this](uint64_t position) {
    std::lock_guard lock(mutex_);
    // A session that is lost has nobody to be told.
    if (!link_->Lost().ok()) return;
    (void)link_->Send(
        {control::EncodeMessage<wire::ClientMessage>([&](wire::ClientMessage::Builder message) {
          auto taken = message.initOutputTaken();
          taken.setSession(facts().id.value);
          taken.setPosition(position);
        })});
  };
  listener_ = std::make_unique<OutputListener>(on_output, std::move(source));
  std::lock_guard lock(mutex_);
  link_->SetOnOutput([this](std::vector<WorkerOutput> lines, uint64_t position) {
    listener_->Push(std::move(lines), position);
  });
}

void SessionCore::AwaitOutput(std::unique_lock<std::mutex>& lock) {
  if (listener_ == nullptr) return;
  lock.unlock();
  listener_->AwaitHandedOver();
  lock.lock();
}

SessionCore::~SessionCore() {
  (void)Close();
  named_.clear();
  names_->Unref();
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

Status SessionCore::Usable() {
  if (closed_) return FailedPrecondition("the session is closed");
  LOCKSTEP_RETURN_IF_ERROR(link_->Lost());
  return link_->Failed();
}

Status SessionCore::SendIfDue() {
  if (writer_.size_bytes() >= kBatchBytes) return SendBatch(RequestId(), -1);
  const auto now = Deadline::Clock::now();
  if (now - last_send_ >= kPause) return SendBatch(RequestId(), -1);
  if (writer_.commands() == 1) first_issued_ = now;
  if (!keeper_active_) {
    keeper_active_ = true;
    keeper_wake_.notify_one();
  }
  return OkStatus();
}

void SessionCore::AppendKills() {
  // Names that do not fit stay for a later batch.
  constexpr uint64_t kFramingBytes = 256;
  const uint64_t used = writer_.size_bytes() + kFramingBytes;
  if (used >= facts().max_batch_bytes) return;
  kills_.clear();
  names_->TakeKills(&kills_, (facts().max_batch_bytes - used) / sizeof(uint64_t));
  if (kills_.empty()) return;
  (void)Append([&](wire::Command::Builder command) {
    auto registers = command.initRelease().initRegisters(static_cast<unsigned>(kills_.size()));
    for (unsigned i = 0; i < registers.size(); ++i) registers.set(i, kills_[i]);
  });
}

Status SessionCore::RemoveOversized(const control::BatchWriter::Mark& before) {
  const size_t size_bytes = writer_.size_bytes() - before.used_words * sizeof(uint64_t);
  writer_.Rollback(before);
  if (size_bytes > facts().max_batch_bytes) {
    return InvalidArgument("the command has ", size_bytes, " bytes, but the controller takes ",
                           facts().max_batch_bytes,
                           " (max_batch_bytes); move large data with CopyToWorker0 and a "
                           "collective");
  }
  return SendBatch(RequestId(), -1);
}

Status SessionCore::SendBatch(RequestId request, Rank answer_from, milliseconds timeout) {
  AppendKills();
  if (writer_.empty()) return OkStatus();
  // A restarted controller would drop it, and it would count as lost.
  LOCKSTEP_RETURN_IF_ERROR(link_->Lost());
  link_->SetNextCommand(first_command_ + writer_.commands());
  const auto now = Deadline::Clock::now();
  // Not set by what is sent at once: then it is older than the last send.
  const auto waited =
      first_issued_ > last_send_ ? now - first_issued_ : Deadline::Clock::duration::zero();
  const control::Frame header =
      control::EncodeMessage<wire::ClientMessage>([&](wire::ClientMessage::Builder message) {
        auto batch = message.initBatch();
        batch.setSession(facts().id.value);
        batch.setGeneration(link_->generation().value);
        batch.setFirstCommand(first_command_);
        batch.setCommandCount(writer_.commands());
        batch.setRegisterGenerations(names_->generations());
        batch.setRequest(request.value);
        batch.setAnswerFrom(answer_from);
        batch.setTimeoutMillis(static_cast<uint64_t>(timeout.count()));
        batch.setWaitedNanos(static_cast<uint64_t>(std::chrono::nanoseconds(waited).count()));
        if (copied_to_.operations > 0) WriteCopies(copied_to_, batch.initCopiedTo());
        if (copied_from_.operations > 0) WriteCopies(copied_from_, batch.initCopiedFrom());
      });
  copied_to_ = copied_from_ = Copies();
  const size_t bytes = writer_.size_bytes();
  const uint32_t commands = writer_.commands();
  link_->flow().Sent(control::FlowCost(bytes));
  last_send_ = now;
  const Status sent = link_->Send({header, writer_.Take()});
  if (ring_.is_on()) RecordBatch(now, waited, commands, bytes);
  return sent;
}

bool SessionCore::WaitUntil(std::unique_lock<std::mutex>& lock, Sleeper& sleeper,
                            absl::FunctionRef<bool()> over, Deadline deadline) {
  thread_local control::AwakePhase awake(kPollBeforeSleep);
  awake.Begin();
  ++readers_;
  const absl::Cleanup no_reader = [this] { --readers_; };
  while (true) {
    link_->Drain();
    if (over()) return true;
    if (deadline.Expired()) return false;
    lock.unlock();
    const bool stay_awake = awake.Yield();
    lock.lock();
    if (stay_awake) continue;
    // Asleep: woken by input, or by another thread that has read what we wait for. Now and then we
    // look whether the controller is still heard.
    constexpr int kLookMillis = 500;
    thread_local control::WakeUp wake_up;
    sleeper.wake_fd = wake_up.fd();
    pollfd set[] = {{link_->wait_fd(), POLLIN, 0}, {wake_up.fd(), POLLIN, 0}};
    lock.unlock();
    poll(set, 2, std::min(kLookMillis, deadline.RemainingMillis()));
    lock.lock();
    sleeper.wake_fd = -1;
    if (set[1].revents != 0) wake_up.Clear();
  }
}

Status SessionCore::WaitForCredit(std::unique_lock<std::mutex>& lock, milliseconds timeout) {
  LOCKSTEP_RETURN_IF_ERROR(Usable());
  // Only what was sent can be consumed.
  LOCKSTEP_RETURN_IF_ERROR(SendBatch(RequestId(), -1));
  const Generation generation = link_->generation();
  const auto began = Deadline::Clock::now();
  Sleeper sleeper;
  link_->AwaitRoom(&sleeper);
  const bool in_time = WaitUntil(
      lock, sleeper,
      [&] {
        return link_->flow().HasRoom(writer_.size_bytes()) || !Usable().ok() ||
               link_->generation() != generation;
      },
      Deadline::After(timeout));
  link_->StopAwaitingRoom(&sleeper);
  RecordWait("wait for the workers to catch up", began);
  LOCKSTEP_RETURN_IF_ERROR(Usable());
  if (link_->generation() != generation) {
    return Aborted("session ", facts().id, " was reset while this call waited for the workers");
  }
  if (in_time) return OkStatus();
  return DeadlineExceeded("the workers have not taken what was sent for ", timeout.count(),
                          " ms; see `lockstep status` for who is behind");
}

StatusOr<control::Frame> SessionCore::SendAndWait(std::unique_lock<std::mutex>& lock, Rank from,
                                                  Deadline deadline) {
  const RequestId request(next_request_++);
  PendingAnswer answer;
  link_->Expect(request, &answer);
  const auto left =
      std::max(milliseconds(1), std::chrono::ceil<milliseconds>(deadline.Remaining()));
  const Status sent = SendBatch(request, from, left);
  if (!sent.ok()) {
    link_->Forget(request);
    return sent;
  }
  const uint64_t commands = next_command_;
  LOCKSTEP_RETURN_IF_ERROR(Await(lock, request, answer, Deadline::After(left + kAnswerGrace)));
  if (from <= 0) idle_after_ = std::max(idle_after_, commands);
  return std::move(answer.body);
}

Status SessionCore::Await(std::unique_lock<std::mutex>& lock, RequestId request,
                          PendingAnswer& answer, Deadline deadline) {
  const auto began = Deadline::Clock::now();
  (void)WaitUntil(
      lock, answer, [&] { return answer.done || !link_->Lost().ok(); }, deadline);
  RecordWait("wait for an answer", began, answer.done ? answer.error.ToStatus() : OkStatus());
  if (answer.done) {
    AwaitOutput(lock);
    return answer.error.ToStatus();
  }
  link_->Forget(request);
  LOCKSTEP_RETURN_IF_ERROR(link_->Lost());
  return DeadlineExceeded("the controller has not answered for ", timeout_.count(), " ms");
}

void SessionCore::NoteCopy(CopyDirection direction, uint64_t bytes,
                           std::chrono::nanoseconds duration) {
  std::lock_guard lock(mutex_);
  Copies& copies = direction == CopyDirection::kToWorker ? copied_to_ : copied_from_;
  ++copies.operations;
  copies.bytes += bytes;
  copies.duration += duration;
  if (!ring_.is_on()) return;
  trace::Event event;
  event.bytes = bytes;
  Record(event, direction == CopyDirection::kToWorker ? "copy to worker-0" : "copy from worker-0",
         trace::Kind::kCopy, Deadline::Clock::now() - duration);
}

bool SessionCore::WorkerZeroIsIdle() {
  std::lock_guard lock(mutex_);
  if (idle_after_ != next_command_) return false;
  // A failure or a loss that has arrived is news for whoever copies.
  link_->Drain();
  return Usable().ok();
}

Status SessionCore::Look() {
  std::lock_guard lock(mutex_);
  link_->Drain();
  return Usable();
}

Status SessionCore::Flush() {
  std::lock_guard lock(mutex_);
  LOCKSTEP_RETURN_IF_ERROR(Usable());
  return SendBatch(RequestId(), -1);
}

void SessionCore::StopKeeper(std::unique_lock<std::mutex>& lock) {
  closed_ = true;
  stopping_ = true;
  keeper_wake_.notify_all();
  lock.unlock();
  if (listener_ != nullptr) listener_->Stop();
  keeper_.join();
}

std::vector<Peer> SessionCore::Workers() {
  std::lock_guard lock(mutex_);
  link_->Drain();
  return link_->workers();
}

SessionCore::WorkerZero SessionCore::IdentifyWorkerZero() {
  std::lock_guard lock(mutex_);
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
      keeper_active_ = false;
      // If this fails the session is lost, as the next call will say.
      (void)SendBatch(RequestId(), -1);
    }
    if (Deadline::Clock::now() >= next_keep_alive) {
      (void)link_->SendKeepAlive();
      next_keep_alive = Deadline::Clock::now() + keep_alive_every;
    }
  }
}

}  // namespace lockstep::client
