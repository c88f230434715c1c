#include "runtime/client/link.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/client/controller_query.h"
#include "runtime/client/failure.h"
#include "runtime/client/session_messages.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"

namespace lockstep::client {

StatusOr<std::unique_ptr<Link>> Link::Open(const OpenRequest& request,
                                           std::shared_ptr<control::ZmqContext> context) {
  if (request.endpoint.empty()) {
    return InvalidArgument(
        "no endpoint: set SessionOptions::endpoint to the controller's, e.g. "
        "\"ipc:///run/user/1000/lockstep-1000/run/demo/client.sock\", which `lockstep up` prints");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<control::ClientChannel> channel,
                            Connect(request.endpoint, request.credentials, std::move(context)));
  return Open(request, std::move(channel));
}

StatusOr<std::unique_ptr<Link>> Link::Open(const OpenRequest& request,
                                           std::unique_ptr<control::ClientChannel> sockets) {
  auto channel = std::make_unique<control::RingClientChannel>(
      std::move(sockets), control::RingClientChannel::AtEnd::kGoOnBySocket);
  if (request.num_groups < 1) {
    return InvalidArgument("num_groups is at least 1, not ", request.num_groups);
  }
  if (request.command_timeout.count() < 0) {
    return InvalidArgument("command_timeout is 0 (none) or longer, not ",
                           request.command_timeout.count(), " ms");
  }
  if (request.keep_for.count() < 0) {
    return InvalidArgument("keep_for is 0 (not at all) or longer, not ", request.keep_for.count(),
                           " ms");
  }
  control::Frame question = OpenSessionFrame(request);
  if (!request.ticket.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(question, AttachFrame(request));
  }
  LOCKSTEP_RETURN_IF_ERROR(channel->Send({std::move(question)}));
  // The controller answers in time whatever happens; the moment more is for its answer's way.
  constexpr std::chrono::milliseconds kForTheWay{200};
  LOCKSTEP_ASSIGN_OR_RETURN(
      const control::Message message,
      AwaitFirstAnswer(*channel, request.endpoint, request.timeout + kForTheWay));
  std::unique_ptr<Link> link;
  LOCKSTEP_RETURN_IF_ERROR(control::DecodeMessage<wire::ControllerMessage>(
      message[0], [&](wire::ControllerMessage::Reader reader) {
        LOCKSTEP_RETURN_IF_ERROR(CheckIsAnswer(reader));
        if (!reader.isSessionOpened()) return UnexpectedAnswer("the opening of a session", reader);
        link.reset(new Link(std::move(channel), reader.getSessionOpened()));
        link->TakeRings(reader.getSessionOpened());
        return OkStatus();
      }));
  return link;
}

Link::Link(std::unique_ptr<control::RingClientChannel> channel, wire::SessionOpened::Reader opened)
    : channel_(std::move(channel)),
      facts_(ReadFacts(opened)),
      start_(ReadStart(opened.getRecord())),
      workers_(ReadPeers(opened.getWorkers())),
      replaced_(ReadReplaced(opened.getReplaced())),
      flow_(facts_.flow_window_bytes, opened.getRecord().getConsumedBytes(),
            opened.getUnderWayBytes()),
      generation_(start_.generation),
      begun_(start_.generation),
      next_command_(start_.next_command),
      silence_(longest_round(), Deadline::Clock::now()) {}

void Link::TakeRings(wire::SessionOpened::Reader opened) {
  // It answers at once, or is on another host.
  constexpr std::chrono::milliseconds kLongest{100};
  const control::RingOffer offer{control::ToString(opened.getRingAddress()),
                                 control::ToString(opened.getRingNonce())};
  if (offer.nonce.empty()) return;
  const Status attached = channel_->Attach(offer, Deadline::After(kLongest));
  if (!attached.ok()) log::Debug("messages go by socket: ", Message(attached));
}

void Link::BeginSleep() {
  ++sleepers_;
  // The controller wakes us once for each time that the channel says to sleep.
  if (sleepers_ > 1) channel_->EndSleep();
  channel_->BeginSleep();
  // Else its sockets' descriptor may stay readable.
  (void)channel_->HasInput();
  Drain();
}

void Link::EndSleep() {
  --sleepers_;
  channel_->EndSleep();
  if (sleepers_ > 0) channel_->BeginSleep();  // others sleep yet
  Drain();
}

Status Link::Send(const control::Message& message) {
  ++sent_;
  return Transmit(message);
}

Status Link::Transmit(const control::Message& message) {
  const Status sent = channel_->Send(message);
  Drain();
  if (sent.ok()) return sent;
  // Why nothing can be sent any more may be among what has just arrived.
  LOCKSTEP_RETURN_IF_ERROR(Lost());
  End(Annotate(sent, "the controller cannot be reached"));
  return gone_;
}

Status Link::SendKeepAlive() {
  // No thread need be waiting for anything, and a controller that has gone reads no ring.
  Drain();
  channel_->NoticeEnd(longest_round());
  Drain();
  // The question, or its answer, may have been lost.
  if (resuming_ != Epoch()) {
    return Transmit({ResumeFrame(facts_, generation_, next_command_)});
  }
  asked_before_keep_alive_ = last_request_;
  return Transmit(
      {control::EncodeMessage<wire::ClientMessage>([&](wire::ClientMessage::Builder message) {
        auto keep_alive = message.initKeepAlive();
        keep_alive.setSession(facts_.id.value);
        keep_alive.setSent(sent_);
        keep_alive.setTellAgain(std::exchange(tell_again_, false));
      })});
}

void Link::HandleKeepAlive(wire::KeepAlive::Reader answer) {
  if (!answer.getMissing() && received_ >= answer.getSent()) return;
  tell_again_ = received_ < answer.getSent();
  received_ = std::max(received_, answer.getSent());
  // Of those who wait, some will never be answered. Batches that are missing fail the session, when
  // the next one comes.
  FailPending(Unavailable("the connection to the controller was lost for a moment, and messages "
                          "with it: what was asked for may have been done, or not"),
              asked_before_keep_alive_);
  if (tell_again_) (void)SendKeepAlive();
}

void Link::Drain() {
  // What is answered while it is taken in: the rest is taken in afterwards, not inside.
  if (std::exchange(draining_, true)) return;
  control::Message message;
  bool heard = false;
  while (channel_->Receive(&message)) {
    heard = true;
    Handle(message);
  }
  if (heard) silence_.Hear(Deadline::Clock::now());
  draining_ = false;
}

Status Link::KnownLost() const {
  if (!gone_.ok()) return gone_;
  if (resuming_ == Epoch()) return OkStatus();
  return Unavailable("the controller was restarted; session ", facts_.id,
                     " waits for its workers to come back (AwaitWorkers)");
}

Status Link::Lost() const {
  LOCKSTEP_RETURN_IF_ERROR(KnownLost());
  const auto silence = silence_.Length(Deadline::Clock::now());
  if (silence < facts_.lease) return OkStatus();
  // It may be silent towards us alone.
  const Status trouble = channel_->trouble();
  if (!trouble.ok()) return Annotate(trouble, "the controller is silent");
  return Unavailable("the controller has been silent for ",
                     std::chrono::duration_cast<std::chrono::milliseconds>(silence).count(),
                     " ms, longer than the session's lease of ", facts_.lease.count(),
                     " ms: it is lost");
}

void Link::StartGeneration(Generation generation) {
  generation_ = generation;
  failure_ = control::RemoteError();
  not_begun_ = OkStatus();
  WakeRoomSleepers();
}

void Link::EndReset(Generation generation, const Status& answered) {
  // The controller's deadline, not this process's own: it has sent the reset on.
  const bool is_late =
      answered.code() == StatusCode::kDeadlineExceeded && FailureOf(answered).has_value();
  const bool has_begun = answered.ok() || is_late;
  if (has_begun) begun_ = std::max(begun_, generation);
  // Another thread has begun one since, which decides.
  if (generation != generation_) return;
  not_begun_ = has_begun ? OkStatus()
                         : Annotate(answered, "the last Reset() of session " +
                                                  std::to_string(facts_.id.value) +
                                                  " was not acknowledged; call it again");
}

void Link::Handle(const control::Message& message) {
  if (message.empty()) return;
  const Status status = control::DecodeMessage<wire::ControllerMessage>(
      message[0], [&](wire::ControllerMessage::Reader reader) {
        return HandleControllerMessage(reader, message);
      });
  if (!status.ok()) End(Annotate(status, "the controller cannot be understood"));
}

Status Link::HandleControllerMessage(wire::ControllerMessage::Reader reader,
                                     const control::Message& message) {
  if (!reader.isKeepAlive() && !reader.isRefused()) ++received_;
  switch (reader.which()) {
    case wire::ControllerMessage::ANSWER: {
      auto answer = reader.getAnswer();
      control::RemoteError error;
      if (answer.hasError()) error = control::ReadError(answer.getError());
      if (error.session == SessionId()) error.session = facts_.id;
      Complete(RequestId(answer.getRequest()), error,
               message.size() > 1 ? message[1] : control::Frame());
      return OkStatus();
    }
    case wire::ControllerMessage::SESSION_FAILED: {
      auto failed = reader.getSessionFailed();
      if (failed.getGeneration() == generation_.value && failure_.ok()) {
        failure_ = control::ReadError(failed.getError());
        WakeRoomSleepers();
      }
      return OkStatus();
    }
    case wire::ControllerMessage::CREDIT:
      flow_.Consumed(reader.getCredit().getConsumedBytes());
      WakeRoomSleepers();
      return OkStatus();
    case wire::ControllerMessage::REFUSED:
      HandleRefusal(reader.getRefused());
      return OkStatus();
    case wire::ControllerMessage::SESSION_OPENED:
      HandleResumed(reader.getSessionOpened());
      return OkStatus();
    case wire::ControllerMessage::SHUTDOWN:
      End(Unavailable("the cluster was shut down: ", control::ToString(reader.getShutdown())));
      return OkStatus();
    case wire::ControllerMessage::KEEP_ALIVE:
      HandleKeepAlive(reader.getKeepAlive());
      return OkStatus();
    case wire::ControllerMessage::WORKERS_REPLACED: {
      auto news = reader.getWorkersReplaced();
      workers_ = ReadPeers(news.getWorkers());
      replaced_ = ReadReplaced(news.getReplaced());
      return OkStatus();
    }
    case wire::ControllerMessage::OUTPUT: {
      if (on_output_ == nullptr) return OkStatus();  // of a client that had the session before
      LOCKSTEP_ASSIGN_OR_RETURN(auto lines, ReadOutput(reader.getOutput(), message));
      on_output_(std::move(lines), reader.getOutput().getPosition());
      return OkStatus();
    }
    default:
      return Internal("unexpected message kind ", static_cast<int>(reader.which()));
  }
}

void Link::Complete(RequestId request, const control::RemoteError& error, control::Frame body) {
  const auto found = pending_.find(request);
  if (found == pending_.end()) return;  // the waiter gave up
  PendingAnswer& answer = *found->second;
  pending_.erase(found);
  answer.error = error;
  answer.body = std::move(body);
  answer.done = true;
  answer.Wake();
}

void Link::HandleRefusal(wire::Refusal::Reader refusal) {
  const Epoch controller(refusal.getController());
  const Status why = control::ReadError(refusal.getError()).ToStatus();
  // Several messages may have reached a controller that does not know the session.
  if (refusal.getResume()) {
    if (controller == resuming_) End(why);
  } else if (controller == facts_.controller) {
    End(why);
  } else if (controller != resuming_) {
    Resume(controller);
  }
}

void Link::Resume(Epoch controller) {
  resuming_ = controller;
  FailPending(Unavailable("the controller was restarted: what was under way is lost"),
              last_request_);
  // If it cannot be sent, the next refusal asks again.
  if (!channel_->Send({ResumeFrame(facts_, generation_, next_command_)}).ok()) resuming_ = Epoch();
}

void Link::HandleResumed(wire::SessionOpened::Reader opened) {
  if (resuming_ == Epoch()) return;  // asked for twice
  facts_.controller = Epoch(opened.getController());
  workers_ = ReadPeers(opened.getWorkers());
  replaced_ = ReadReplaced(opened.getReplaced());
  flow_ = FlowWindow(facts_.flow_window_bytes, opened.getRecord().getConsumedBytes(),
                     opened.getUnderWayBytes());
  resuming_ = Epoch();
  sent_ = 0;
  received_ = 1;
  TakeRings(opened);
  WakeRoomSleepers();
}

void Link::FailPending(const Status& cause, RequestId last) {
  const control::RemoteError error = control::ErrorOf(cause);
  while (!pending_.empty() && pending_.begin()->first <= last) {
    Complete(pending_.begin()->first, error, control::Frame());
  }
  WakeRoomSleepers();
}

void Link::End(const Status& cause) {
  gone_ = cause;
  FailPending(cause, last_request_);
}

void Link::WakeRoomSleepers() const {
  for (const Sleeper* sleeper : room_sleepers_) sleeper->Wake();
}

void Sleeper::Wake() const {
  if (wake_fd < 0) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd, &one, sizeof one);
}

}  // namespace lockstep::client
