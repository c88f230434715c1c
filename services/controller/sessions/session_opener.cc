#include "services/controller/sessions/session_opener.h"

#include <utility>

#include "runtime/base/host_identity.h"
#include "runtime/base/log.h"
#include "runtime/control/batch.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/session_record.h"
#include "runtime/control/value_codec.h"

namespace lockstep::controller {
namespace {

// Each is a few kilobytes here and on every worker.
constexpr size_t kMaxSessions = 4096;
constexpr size_t kMaxWaiting = 4096;

}  // namespace

// One path for those that are opened at once and those that wait.
void SessionOpener::Handle(Applicant applicant, const control::Frame& message,
                           uint64_t timeout_millis) {
  // What the same client has asked before is out of date.
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    return waiting.applicant.client == applicant.client;
  });
  if (waiting_.size() == kMaxWaiting) {
    return messenger_.Refuse(
        applicant.client,
        ResourceExhausted(kMaxWaiting, " clients wait for the workers already; try later"));
  }
  waiting_.push_back({std::move(applicant), message, tools_.timers.After(timeout_millis)});
  OpenWaiting();
}

void SessionOpener::OpenWaiting() {
  if (!tools_.membership.AllReady()) return;
  for (const Waiting& waiting : std::exchange(waiting_, {})) {
    const Applicant& applicant = waiting.applicant;
    const Status status = control::DecodeMessage<wire::ClientMessage>(
        waiting.message, [&](wire::ClientMessage::Reader reader) {
          // It may have waited for long.
          LOCKSTEP_RETURN_IF_ERROR(access_.CheckStillAllowed(applicant.sender));
          if (reader.isOpenSession()) return Open(applicant, reader.getOpenSession());
          if (reader.isAttachSession()) {
            return takeover_.Attach(applicant, reader.getAttachSession());
          }
          takeover_.Resume(applicant, reader.getResumeSession());
          return OkStatus();
        });
    if (!status.ok()) messenger_.Refuse(applicant.client, status);
  }
}

Status SessionOpener::Open(const Applicant& applicant, wire::OpenSession::Reader open) {
  LOCKSTEP_RETURN_IF_ERROR(CheckClientVersion(open.getMinVersion(), open.getMaxVersion(),
                                              control::ToString(open.getBuild())));
  const uint32_t groups = open.getNumGroups();
  if (groups == 0 || static_cast<uint32_t>(tools_.membership.size()) % groups != 0) {
    return InvalidArgument("num_groups is ", groups, ", which does not divide the ",
                           tools_.membership.size(), " workers");
  }
  if (sessions_.all().size() >= kMaxSessions) {
    return ResourceExhausted("cluster \"", tools_.options.cluster, "\" has ", kMaxSessions,
                             " sessions already; close some first");
  }
  LOCKSTEP_RETURN_IF_ERROR(access_.CheckRoom(applicant.sender));
  LOCKSTEP_RETURN_IF_ERROR(CheckBulkKey(open.getBulkKey()));
  tools_.counts.sessions_opened.Add();
  SessionEntry& session = sessions_.Open(applicant.client, tools_.clock.Now());
  session.owner = applicant.sender;
  tools_.tracing.Mark("session opened", session.id);
  SetClientProcess(session, control::ToString(open.getName()), open.getHost(), open.getPid());
  session.SetProcess(processes_.Watch(session.host_id, session.pid));
  session.num_groups = static_cast<int>(groups);
  session.command_timeout = control::Millis(open.getCommandTimeoutMillis());
  session.keep_for = control::Millis(open.getKeepMillis());
  session.bulk_key = control::ToString(open.getBulkKey());
  session.forward_output = open.getForwardOutput();
  log::Info(log::OfSession(session.id.value), "session \"", session.name, "\" opened by ",
            ProcessLabel(session.host, session.pid));

  const control::Frame body = control::OneCommand([&](wire::Command::Builder command) {
    control::WriteSessionRecord(command.initOpenSession(), session.Record());
  });
  broadcaster_.Send({session.id, session.generation, 0, RequestId()}, body);
  messenger_.TellOpened(session);
  return OkStatus();
}

Deadline SessionOpener::Expire(TimePoint now, Deadline next) {
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (waiting.deadline.when() > now) {
      next = next.Earlier(waiting.deadline);
      return false;
    }
    messenger_.Refuse(waiting.applicant.client,
                      Annotate(tools_.membership.Whole(), "the cluster was not ready in time"));
    return true;
  });
  return next;
}

void SessionOpener::RefuseAll(const Status& why) {
  for (const Waiting& waiting : waiting_) messenger_.Refuse(waiting.applicant.client, why);
}

}  // namespace lockstep::controller
