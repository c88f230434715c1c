#include "services/controller/sessions/session_takeover.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/base/host_identity.h"
#include "runtime/base/log.h"
#include "runtime/control/batch.h"
#include "runtime/control/value_codec.h"
#include "services/controller/sessions/restored_sessions.h"

namespace lockstep::controller {
namespace {

std::string NameOf(const std::optional<control::Identity>& owner) {
  return owner.has_value() ? owner->Text() : "";
}

}  // namespace

StatusOr<SessionEntry*> SessionTakeover::FindByToken(const control::PeerName& client, SessionId id,
                                                     const std::string& token,
                                                     const std::string& how) {
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
                              tools_.options.session_lease.count(), " ms");
  }
  return session;
}

Status SessionTakeover::Attach(const Applicant& applicant, wire::AttachSession::Reader attach) {
  LOCKSTEP_RETURN_IF_ERROR(CheckClientVersion(attach.getMinVersion(), attach.getMaxVersion(),
                                              control::ToString(attach.getBuild())));
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry* const session,
                            FindByToken(applicant.client, SessionId(attach.getSession()),
                                        control::ToString(attach.getToken()), "attached to"));
  LOCKSTEP_RETURN_IF_ERROR(CheckBulkKey(attach.getBulkKey()));
  const auto left = session->owner_until.when() - tools_.clock.Now();
  if (left > left.zero()) {
    return FailedPrecondition(
        "session ", session->id, " cannot be attached to yet: the controller was restarted, and ",
        ProcessLabel(session->host, session->pid), ", which had the session, has ",
        std::chrono::ceil<std::chrono::milliseconds>(left).count(), " ms left to come back to it");
  }
  ++session->client_number;
  session->bulk_key = control::ToString(attach.getBulkKey());
  session->forward_output = attach.getForwardOutput();
  session->owner = applicant.sender;
  AdoptClient(*session, control::ToString(attach.getName()), attach.getHost(), attach.getPid());
  tools_.counts.sessions_attached.Add();
  HandOver(*session, applicant);
  return OkStatus();
}

Status SessionTakeover::CheckResume(const control::PeerName& client,
                                    wire::ResumeSession::Reader resume) {
  LOCKSTEP_RETURN_IF_ERROR(CheckClientVersion(resume.getMinVersion(), resume.getMaxVersion(),
                                              control::ToString(resume.getBuild())));
  const SessionId id(resume.getSession());
  LOCKSTEP_ASSIGN_OR_RETURN(
      const SessionEntry* const session,
      FindByToken(client, id, control::ToString(resume.getToken()), "resumed"));
  if (resume.getClientNumber() < session->client_number) {
    return PermissionDenied("session ", id,
                            " cannot be resumed: ", ProcessLabel(session->host, session->pid),
                            " has attached to it since");
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckBulkKey(resume.getBulkKey()));
  if (resume.getNextCommand() < session->commands.next_command()) {
    return InvalidArgument("session ", id, " cannot be resumed at command ",
                           resume.getNextCommand(), ": it has come to command ",
                           session->commands.next_command());
  }
  return OkStatus();
}

void SessionTakeover::Resume(const Applicant& applicant, wire::ResumeSession::Reader resume) {
  const Status status = CheckResume(applicant.client, resume);
  if (!status.ok()) return messenger_.Refuse(applicant.client, status, /*resume=*/true);
  SessionEntry& session = *sessions_.Find(SessionId(resume.getSession()));
  log::Info(log::OfSession(session.id.value), "session is resumed by its client");
  if (Generation(resume.getGeneration()) > session.generation) {
    session.generation = Generation(resume.getGeneration());
    // Its resets were lost with their controller; the workers will not come to them.
    session.come_to.assign(session.come_to.size(), session.generation);
  }
  if (resume.getClientNumber() > session.client_number) {
    // It had attached a moment before, and no worker has been told.
    session.client_number = resume.getClientNumber();
    session.bulk_key = control::ToString(resume.getBulkKey());
    session.forward_output = resume.getForwardOutput();
    session.owner = applicant.sender;
    AdoptClient(session, control::ToString(resume.getName()), resume.getHost(), resume.getPid());
  } else if (NameOf(session.owner) != NameOf(applicant.sender)) {
    // It shows another key than before: the workers hand that on, should this controller be lost.
    session.owner = applicant.sender;
    BroadcastClient(session);
  }
  // Asked for once more by the client that has it: its last answer may have been lost.
  const uint64_t next_command = session.commands.next_command();
  if (resume.getNextCommand() > next_command) {
    session.failure.code = StatusCode::kDataLoss;
    session.failure.message += "; commands " + std::to_string(next_command) + " to " +
                               std::to_string(resume.getNextCommand() - 1) +
                               " were executed by no worker";
    // Workers that have come since have not had these commands either.
    for (auto& [rank, from_command] : session.replaced) {
      if (from_command == next_command) from_command = resume.getNextCommand();
    }
    session.commands.SkipTo(resume.getNextCommand());
  }
  tools_.counts.sessions_resumed.Add();
  HandOver(session, applicant);
}

void SessionTakeover::AdoptClient(SessionEntry& session, const std::string& name,
                                  wire::Host::Reader host, int pid) {
  SetClientProcess(session, name, host, pid);
  log::Info(log::OfSession(session.id.value), "session has a client again: \"", session.name,
            "\", ", ProcessLabel(session.host, session.pid));
  BroadcastClient(session);
}

void SessionTakeover::BroadcastClient(const SessionEntry& session) {
  const control::Frame body = control::OneCommand([&](wire::Command::Builder command) {
    control::WriteSessionRecord(command.initAdopt(), session.Record());
  });
  broadcaster_.Send({session.id, session.generation, 0, RequestId()}, body);
}

void SessionTakeover::HandOver(SessionEntry& session, const Applicant& applicant) {
  session.client = applicant.client;
  session.SetProcess(processes_.Watch(session.host_id, session.pid));
  session.client_lost = false;
  session.was_restored = false;
  session.last_heard = tools_.clock.Now();
  session.owner_until = Deadline::At(session.last_heard);
  session.heard_messages = 0;
  // Its client counts from what was sent on.
  session.commands.ForgetLostBytes();
  session.told_messages = 0;
  session.output = OutputWindow();
  messenger_.TellOpened(session);
  if (!session.failure.ok()) messenger_.TellFailure(session);
}

void SessionTakeover::Restore(const std::vector<const Inventory*>& by_rank) {
  for (RestoredSession& restored : RestoreSessions(by_rank)) {
    SessionEntry& session = sessions_.Restore(restored.record, tools_.clock.Now());
    session.replaced = std::move(restored.replaced);
    // No controller has seen it leave: it may be writing to a tensor at this moment.
    session.client_lost = true;
    session.was_restored = true;
    const auto keep_for = std::max(tools_.options.session_lease, session.keep_for);
    session.KeepWithoutClient(tools_.timers.After(static_cast<uint64_t>(keep_for.count())));
    log::Warn(log::OfSession(session.id.value), "session \"", session.name, "\" of ",
              ProcessLabel(session.host, session.pid), " is restored: ", session.failure.message);
  }
  // Keys may have been taken back while there was no controller.
  access_.ForgetVersion();
}

}  // namespace lockstep::controller
