#include "services/controller/sessions/session_commands.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "runtime/control/batch.h"
#include "runtime/control/value_codec.h"

namespace lockstep::controller {
namespace {

// A client of ours asks one thing per thread, and waits.
constexpr size_t kMaxRequests = 4096;
constexpr uint32_t kMaxResetsAhead = 2000;
constexpr uint64_t kLongestWaitNanos = uint64_t{1} << 50;  // what a client may say: 13 days
constexpr size_t kMaxRegisterNameBytes = 255;

}  // namespace

Status SessionCommands::CheckRequest(RequestId request) {
  if (request != SessionEntry::kEndRequest) return OkStatus();
  return InvalidArgument("request ", request, " is the controller's own");
}

Status SessionCommands::CheckRoomForRequest(const SessionEntry& session) const {
  if (gatherer_.CountOf(session.id) < kMaxRequests) return OkStatus();
  return ResourceExhausted("session ", session.id, " waits for ", kMaxRequests, " answers already");
}

// Each waits in the worker's queue, and its abort in the worker's memory.
Status SessionCommands::CheckRoomForReset(const SessionEntry& session,
                                          Generation generation) const {
  for (Rank rank = 0; rank < tools_.membership.size(); ++rank) {
    const Generation come_to = session.come_to[static_cast<size_t>(rank)];
    if (!tools_.membership.IsWelcome(rank) || generation.value - come_to.value < kMaxResetsAhead) {
      continue;
    }
    return ResourceExhausted("session ", session.id, " was reset ", kMaxResetsAhead,
                             " times without rank ", rank,
                             " having come to it; see `lockstep status` for what it is doing");
  }
  return OkStatus();
}

Status SessionCommands::CheckBatch(wire::Batch::Reader batch,
                                   const control::Message& message) const {
  if (message.size() != 2) {
    return InvalidArgument("a batch has two frames, this message has ", message.size());
  }
  const Rank from = batch.getAnswerFrom();
  if (from < -1 || from >= tools_.membership.size()) {
    return InvalidArgument("rank ", from, " cannot answer: the ranks are 0 to ",
                           tools_.membership.size() - 1);
  }
  // Batches with number 0 are the controller's own: they may open, reset and close sessions.
  if (batch.getFirstCommand() == 0 || batch.getCommandCount() == 0) {
    return InvalidArgument("the commands of a batch are counted from 1, and there is at least one");
  }
  if (batch.getCommandCount() > message[1].size() / control::kMinCommandBytes) {
    return InvalidArgument("a body of ", message[1].size(), " bytes has fewer than ",
                           batch.getCommandCount(), " commands");
  }
  return CheckRequest(RequestId(batch.getRequest()));
}

Status SessionCommands::HandleBatch(const control::PeerName& client, wire::Batch::Reader batch,
                                    const control::Message& message) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry * session,
                            sessions_.FindHeard(SessionId(batch.getSession()), client));
  const RequestId request(batch.getRequest());
  if (session->ending.has_value()) {
    // Names that are given back meanwhile are free soon enough; a request is answered.
    if (request != RequestId()) {
      messenger_.Answer(client, session->id, request,
                        control::ErrorOf(SessionTable::BeingClosed(session->id)));
    }
    return OkStatus();
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckBatch(batch, message));
  const TimePoint now = tools_.clock.Now();
  session->last_heard = now;
  session->register_generations =
      std::max(session->register_generations, batch.getRegisterGenerations());
  if (batch.hasCopiedTo()) tools_.counts.copied_to.Add(batch.getCopiedTo());
  if (batch.hasCopiedFrom()) tools_.counts.copied_from.Add(batch.getCopiedFrom());
  Status admitted = OkStatus();
  if (request != RequestId()) {
    admitted = CheckRoomForRequest(*session);
    gatherer_.Expect(client, session->id, request, tools_.membership.size(), batch.getAnswerFrom(),
                     tools_.timers.After(batch.getTimeoutMillis()), now);
  }
  if (admitted.ok()) admitted = Admit(*session, batch, message[1].size());
  if (admitted.ok()) {
    broadcaster_.Send(
        {session->id, Generation(batch.getGeneration()), batch.getFirstCommand(), request,
         std::chrono::nanoseconds(std::min(batch.getWaitedNanos(), kLongestWaitNanos)), now},
        message[1]);
  } else {
    Reject(*session, batch, admitted);
  }
  // The workers skip the commands of a failed session, but no request has to wait for that.
  if (!session->failure.ok()) gatherer_.FailAll(session->id, session->failure);
  return OkStatus();
}

Status SessionCommands::Admit(SessionEntry& session, wire::Batch::Reader batch, size_t body_bytes) {
  if (!session.broken.ok()) return session.broken.ToStatus();
  if (IsAhead(session, batch)) {
    return MakeStatus(StatusCode::kDataLoss, "session ", session.id, " sent a batch of generation ",
                      batch.getGeneration(), ", but is in generation ", session.generation,
                      ": the reset between was lost on its way, or refused; reset the session "
                      "again");
  }
  return session.commands.Admit(limits_, batch.getFirstCommand(), batch.getCommandCount(),
                                control::FlowCost(body_bytes));
}

bool SessionCommands::IsAhead(const SessionEntry& session, wire::Batch::Reader batch) {
  return Generation(batch.getGeneration()) > session.generation;
}

// What was lost on its way a reset can mend, which says where the client is. One that sends what it
// has sent before, or more than it may, is none of ours.
void SessionCommands::Reject(SessionEntry& session, wire::Batch::Reader batch, const Status& why) {
  if (IsAhead(session, batch) || batch.getFirstCommand() > session.commands.next_command()) {
    failures_.Fail(session, control::ErrorOf(why));
  } else if (session.broken.ok()) {
    failures_.Break(session, why);
  }
}

Status SessionCommands::HandleReset(const control::PeerName& client,
                                    wire::ResetSession::Reader reset) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry * session,
                            sessions_.FindOpen(SessionId(reset.getSession()), client));
  // One that was used before (or is far off) would bring aborts and communicators of its first use
  // back to life. A few may be left out: resets may have been lost on their way.
  constexpr uint32_t kMostLost = 1000;
  if (reset.getGeneration() - session->generation.value - 1 >= kMostLost) {
    return InvalidArgument("generation ", reset.getGeneration(), " does not follow ",
                           session->generation);
  }
  const RequestId request(reset.getRequest());
  LOCKSTEP_RETURN_IF_ERROR(CheckRequest(request));
  const TimePoint now = tools_.clock.Now();
  session->last_heard = now;
  // What is in flight ends even if nothing has failed: a reset is also how a client gives up. What
  // comes before a failure is still executed, so that all ranks have its results.
  const Status room = CheckRoomForReset(*session, Generation(reset.getGeneration()));
  if (!room.ok()) {
    messenger_.Answer(client, session->id, request, control::ErrorOf(room));
    return OkStatus();
  }
  if (session->failure.ok()) {
    failures_.GiveUp(*session);
  } else {
    // Workers that have not heard it would not hear of it after the reset.
    failures_.AbortOnWorkers(*session);
    failures_.EndPast(*session, session->failure);
  }
  const uint64_t failed_from = session->failed_from;
  gatherer_.Expect(client, session->id, request, tools_.membership.size(), -1,
                   tools_.timers.After(reset.getTimeoutMillis()), now);
  tools_.counts.resets.Add();
  tools_.tracing.Mark("session reset", session->id);
  const Generation before = session->generation;
  session->generation = Generation(reset.getGeneration());
  if (session->commands.Reset(reset.getNextCommand(), reset.getSentBytes())) {
    messenger_.TellCredit(*session);
  }
  session->failure = control::RemoteError();
  session->failed_alike.clear();
  failures_.KeepPast(*session, before, failed_from);
  const control::Frame body = control::OneCommand([&](wire::Command::Builder command) {
    auto reset_order = command.initReset();
    reset_order.setGeneration(session->generation.value);
    reset_order.setFailedFrom(failed_from);
  });
  broadcaster_.Send({session->id, session->generation, 0, request}, body);
  const Status whole = tools_.membership.Whole();
  if (!whole.ok()) failures_.Fail(*session, control::ErrorOf(whole));
  if (!session->broken.ok()) failures_.Fail(*session, session->broken);
  return OkStatus();
}

Status SessionCommands::HandleName(const control::PeerName& client,
                                   wire::NameRegister::Reader name) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry * session,
                            sessions_.FindOpen(SessionId(name.getSession()), client));
  const RequestId request(name.getRequest());
  const std::string text = control::ToString(name.getName().getName());
  const RegisterId id = RegisterId::FromPacked(name.getName().getRegister());
  const bool is_new = !session->names.contains(text);
  const TimePoint now = tools_.clock.Now();
  session->last_heard = now;
  const auto refuse = [&](const Status& why) {
    messenger_.Answer(client, session->id, request, control::ErrorOf(why));
    return OkStatus();
  };
  if (text.empty() || text.size() > kMaxRegisterNameBytes) {
    return refuse(InvalidArgument("a register's name has 1 to ", kMaxRegisterNameBytes,
                                  " bytes, not ", text.size()));
  }
  if (!id.IsNone() && is_new) {
    if (const Status room = sessions_.CheckRoomForName(*session, text); !room.ok()) {
      return refuse(room);
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckRequest(request));
  if (const Status room = CheckRoomForRequest(*session); !room.ok()) return refuse(room);
  failures_.NoticeLostBatches(*session, name.getNextCommand());
  if (!session->failure.ok()) {
    messenger_.Answer(client, session->id, request, session->failure);
    return OkStatus();
  }
  if (id.IsNone()) {
    session->Unname(text);
  } else {
    session->Name(text, {id, name.getName().getNamedBy()});
  }
  gatherer_.Expect(client, session->id, request, tools_.membership.size(), -1,
                   tools_.timers.After(name.getTimeoutMillis()), now);
  const control::Frame body = control::OneCommand(
      [&](wire::Command::Builder command) { command.setNameRegister(name.getName()); });
  broadcaster_.Send({session->id, session->generation, 0, request}, body);
  return OkStatus();
}

void SessionCommands::HandleReply(Rank rank, wire::Reply::Reader reply, control::Frame body) {
  control::RemoteError error;
  if (reply.hasError()) error = control::ReadError(reply.getError());
  const SessionId id(reply.getSession());
  const RequestId request(reply.getRequest());
  SessionEntry* const session = sessions_.Find(id);
  if (session != nullptr) {
    Generation& come_to = session->come_to[static_cast<size_t>(rank)];
    come_to = std::max(come_to, Generation(reply.getGeneration()));
  }
  if (request != SessionEntry::kEndRequest) {
    return gatherer_.Answer(id, request, rank, error, std::move(body));
  }
  if (session != nullptr && session->ending.has_value()) ender_.NoteClosed(*session, rank, error);
}

void SessionCommands::HandleConsumed(Rank rank, wire::Consumed::Reader consumed) {
  SessionEntry* session = sessions_.Find(SessionId(consumed.getSession()));
  if (session == nullptr) return;
  if (session->commands.Consume(rank, consumed.getBytes())) messenger_.TellCredit(*session);
}

}  // namespace lockstep::controller
