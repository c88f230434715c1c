// What a session asks the controller itself: everything that is no command of the workers.
#include <algorithm>
#include <string>

#include "runtime/client/session_core.h"
#include "runtime/control/message_codec.h"
#include "schemas/session.capnp.h"

namespace lockstep::client {
namespace {

using std::chrono::milliseconds;

// Work that was issued and not waited for may take this long when the session is closed.
constexpr milliseconds kLongestClose{30'000};

}  // namespace

Status SessionCore::AskController(
    std::unique_lock<std::mutex>& lock, milliseconds timeout,
    absl::FunctionRef<void(wire::ClientMessage::Builder, RequestId)> fill) {
  const RequestId request(next_request_++);
  PendingAnswer answer;
  link_->Expect(request, &answer);
  const Status sent = link_->Send({control::EncodeMessage<wire::ClientMessage>(
      [&](wire::ClientMessage::Builder message) { fill(message, request); })});
  if (!sent.ok()) {
    link_->Forget(request);
    return sent;
  }
  return Await(lock, request, answer, Deadline::After(timeout + kAnswerGrace));
}

Status SessionCore::AwaitWorkers(milliseconds timeout) {
  const Deadline deadline = Deadline::After(timeout);
  std::unique_lock lock(mutex_);
  if (closed_) return FailedPrecondition("the session is closed");
  Sleeper sleeper;
  while (true) {
    // A controller that is gone may be started again, and then again.
    (void)WaitUntil(
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
  if (closed_) return FailedPrecondition("the session is closed");
  LOCKSTEP_RETURN_IF_ERROR(link_->Lost());
  // What was collected belongs to the work that ends, but names dropped there must still be freed.
  LOCKSTEP_RETURN_IF_ERROR(SendBatch(RequestId(), -1));
  const Generation generation(link_->generation().value + 1);
  link_->StartGeneration(generation);
  return AskController(lock, timeout_,
                       [&](wire::ClientMessage::Builder message, RequestId request) {
                         auto reset = message.initResetSession();
                         reset.setSession(facts().id.value);
                         reset.setGeneration(generation.value);
                         reset.setNextCommand(next_command_);
                         reset.setSentBytes(link_->flow().sent());
                         reset.setRequest(request.value);
                         reset.setTimeoutMillis(static_cast<uint64_t>(timeout_.count()));
                       });
}

Status SessionCore::Name(const DRef& ref, const std::string& name) {
  std::unique_lock lock(mutex_);
  LOCKSTEP_RETURN_IF_ERROR(Usable());
  // Whoever finds the name finds the register as it is now.
  LOCKSTEP_RETURN_IF_ERROR(SendBatch(RequestId(), -1));
  LOCKSTEP_RETURN_IF_ERROR(
      AskController(lock, timeout_, [&](wire::ClientMessage::Builder message, RequestId request) {
        auto named = message.initNameRegister();
        named.setSession(facts().id.value);
        named.setRequest(request.value);
        named.setTimeoutMillis(static_cast<uint64_t>(timeout_.count()));
        named.setNextCommand(next_command_);
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
  LOCKSTEP_RETURN_IF_ERROR(Usable());
  LOCKSTEP_RETURN_IF_ERROR(SendBatch(RequestId(), -1));
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
  closed_ = true;
  link_->WakeRoomSleepers();
  Status status = link_->Lost();
  if (status.ok()) {
    const milliseconds timeout = std::min(timeout_, kLongestClose);
    status = SendBatch(RequestId(), -1);
    status.Update(
        AskController(lock, timeout, [&](wire::ClientMessage::Builder message, RequestId request) {
          auto close = message.initCloseSession();
          close.setSession(facts().id.value);
          close.setRequest(request.value);
          close.setTimeoutMillis(static_cast<uint64_t>(timeout.count()));
          close.setNextCommand(next_command_);
        }));
  }
  // Only now: until then the keeper keeps the lease.
  StopKeeper(lock);
  return status;
}

}  // namespace lockstep::client
