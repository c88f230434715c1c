// Sessions that outlive their clients: registers get names, a client leaves or vanishes, and
// another one attaches and finds them.

#include <algorithm>
#include <string>

#include "runtime/base/host_identity.h"
#include "runtime/base/log.h"
#include "runtime/control/value_codec.h"
#include "services/controller/controller.h"

namespace lockstep::controller {
namespace {

constexpr size_t kMaxNameBytes = 255;

}  // namespace

Status Controller::HandleName(const control::PeerName& client, wire::NameRegister::Reader name) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry * session, FindOpen(SessionId(name.getSession()), client));
  const RequestId request(name.getRequest());
  const std::string text = control::ToString(name.getName().getName());
  const RegisterId id = RegisterId::FromPacked(name.getName().getRegister());
  const bool is_new = !session->names.contains(text);
  session->last_heard = Deadline::Clock::now();
  const auto refuse = [&](const Status& why) {
    Answer(client, session->id, request, control::ErrorOf(why));
    return OkStatus();
  };
  if (text.empty() || text.size() > kMaxNameBytes) {
    return refuse(
        InvalidArgument("a register's name has 1 to ", kMaxNameBytes, " bytes, not ", text.size()));
  }
  if (!id.IsNone() && is_new) {
    if (const Status room = sessions_.CheckRoomForName(*session, text); !room.ok()) {
      return refuse(room);
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckRequest(request));
  if (const Status room = CheckRoomForRequest(*session); !room.ok()) return refuse(room);
  NoticeLostBatches(*session, name.getNextCommand());
  if (!session->failure.ok()) {
    Answer(client, session->id, request, session->failure);
    return OkStatus();
  }
  if (id.IsNone()) {
    session->Unname(text);
  } else {
    session->Name(text, {id, name.getName().getNamedBy()});
  }
  gatherer_.Expect(client, session->id, request, membership_.size(), -1,
                   Timer(name.getTimeoutMillis()));
  const control::Frame body = control::OneCommand(
      [&](wire::Command::Builder command) { command.setNameRegister(name.getName()); });
  Broadcast({session->id, session->generation, 0, request}, body);
  return OkStatus();
}

Status Controller::HandleDetach(const control::PeerName& client,
                                wire::DetachSession::Reader detach) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry * session,
                            FindOpen(SessionId(detach.getSession()), client));
  const RequestId request(detach.getRequest());
  if (session->keep_for.count() == 0) {
    Answer(client, session->id, request,
           control::ErrorOf(FailedPrecondition(
               "session ", session->id,
               " is not kept without a client; open it with SessionOptions::keep_for")));
    return OkStatus();
  }
  log::Info(log::OfSession(session->id.value), "session is left by its client, and kept for ",
            session->keep_for.count(), " ms");
  Answer(client, session->id, request, control::RemoteError());
  session->client_lost = false;
  Orphan(*session, session->keep_for);
  return OkStatus();
}

void Controller::Orphan(SessionEntry& session, std::chrono::milliseconds keep_for) {
  session.client.clear();
  session.kept_until = Timer(static_cast<uint64_t>(keep_for.count()));
}

StatusOr<SessionEntry*> Controller::FindByToken(const control::PeerName& client, SessionId id,
                                                const std::string& token, const std::string& how) {
  SessionEntry* session = sessions_.Find(id);
  if (session == nullptr || session->ending.has_value()) {
    return MakeStatus(StatusCode::kDataLoss, "session ", id, " cannot be ", how,
                      ": it has ended, or no worker came back with its registers when the "
                      "controller was restarted; open a new session");
  }
  if (session->token != token) {
    return PermissionDenied("session ", id, " cannot be ", how, ": the token is not its own");
  }
  if (!session->client.empty() && session->client != client) {
    return FailedPrecondition("session ", id, " cannot be ", how, ": it has a client, ",
                              ProcessLabel(session->host, session->pid),
                              ", which has to detach, or to be silent for ",
                              options_.session_lease.count(), " ms");
  }
  return session;
}

Status Controller::Attach(const PendingOpen& open, wire::AttachSession::Reader attach) {
  LOCKSTEP_RETURN_IF_ERROR(CheckVersion(attach.getMinVersion(), attach.getMaxVersion(),
                                        control::ToString(attach.getBuild())));
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry* const session,
                            FindByToken(open.client, SessionId(attach.getSession()),
                                        control::ToString(attach.getToken()), "attached to"));
  LOCKSTEP_RETURN_IF_ERROR(CheckBulkKey(attach.getBulkKey()));
  if (!session->owner_until.Expired()) {
    return FailedPrecondition(
        "session ", session->id, " cannot be attached to yet: the controller was restarted, and ",
        ProcessLabel(session->host, session->pid), ", which had the session, has ",
        session->owner_until.RemainingMillis(), " ms left to come back to it");
  }
  ++session->client_number;
  session->bulk_key = control::ToString(attach.getBulkKey());
  session->forward_output = attach.getForwardOutput();
  session->owner = open.sender;
  Adopt(*session, control::ToString(attach.getName()), attach.getHost(), attach.getPid());
  session->lost_bytes = 0;  // of another client's count
  metrics_.counts().sessions_attached.Add();
  HandOver(*session, open);
  return OkStatus();
}

void Controller::Adopt(SessionEntry& session, const std::string& name, wire::Host::Reader host,
                       int pid) {
  session.name = ShortName(name);
  session.host = ShortName(control::ToString(host.getName()));
  session.host_id = ShortName(control::ToString(host.getId()));
  session.pid = pid;
  log::Info(log::OfSession(session.id.value), "session has a client again: \"", session.name,
            "\", ", ProcessLabel(session.host, session.pid));
  TellClient(session);
}

void Controller::TellClient(const SessionEntry& session) {
  const control::Frame body = control::OneCommand([&](wire::Command::Builder command) {
    control::WriteSessionRecord(command.initAdopt(), session);
  });
  Broadcast({session.id, session.generation, 0, RequestId()}, body);
}

void Controller::HandOver(SessionEntry& session, const PendingOpen& open) {
  session.client = open.client;
  session.client_lost = false;
  session.was_restored = false;
  session.owner_until = Deadline::After({});
  session.last_heard = Deadline::Clock::now();
  session.heard_messages = 0;
  // Its client counts generations from here; those before are behind it.
  session.come_to.assign(session.come_to.size(), session.generation);
  session.told_messages = 0;
  session.output = OutputWindow();
  SendOpened(session);
  if (!session.failure.ok()) SendFailure(session);
}

}  // namespace lockstep::controller
