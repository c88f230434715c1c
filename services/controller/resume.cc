// How a controller goes on where a lost one has left off.
//
// The workers come back with an inventory of what they hold, the clients with the tokens of their
// sessions. A session is put together when all ranks are present, and works again when its client
// has come back and reset it.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/host_identity.h"
#include "runtime/base/log.h"
#include "runtime/control/value_codec.h"
#include "services/controller/controller.h"
#include "services/controller/restored_sessions.h"

namespace lockstep::controller {
namespace {

std::string NameOf(const std::optional<control::Identity>& owner) {
  return owner.has_value() ? owner->Text() : "";
}

}  // namespace

std::vector<Rank> Controller::RestoreSessions() {
  std::vector<const Inventory*> inventories;
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    const std::optional<Inventory>& inventory = membership_.member(rank).facts.inventory;
    inventories.push_back(inventory.has_value() ? &*inventory : nullptr);
    // The clock may have been set back meanwhile.
    if (inventory.has_value()) epoch_ = std::max(epoch_, Epoch(inventory->epoch.value + 1));
  }
  inventories = CountingInventories(std::move(inventories));
  for (RestoredSession& restored : controller::RestoreSessions(inventories)) {
    SessionEntry& session = sessions_.Restore(restored.record);
    session.replaced = std::move(restored.replaced);
    // Nobody has seen it leave: it may be writing to a tensor at this moment.
    session.client_lost = true;
    session.was_restored = true;
    Orphan(session, std::max(options_.session_lease, session.keep_for));
    log::Warn(log::OfSession(session.id.value), "session \"", session.name, "\" of ",
              ProcessLabel(session.host, session.pid), " is restored: ", session.failure.message);
  }
  // Keys may have been taken back while there was no controller.
  gate_version_.reset();
  std::vector<Rank> with_nothing;
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    if (inventories[static_cast<size_t>(rank)] == nullptr) with_nothing.push_back(rank);
  }
  return with_nothing;
}

Status Controller::CheckResume(const control::PeerName& client,
                               wire::ResumeSession::Reader resume) {
  LOCKSTEP_RETURN_IF_ERROR(CheckVersion(resume.getMinVersion(), resume.getMaxVersion(),
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
  if (resume.getNextCommand() < session->next_command) {
    return InvalidArgument("session ", id, " cannot be resumed at command ",
                           resume.getNextCommand(), ": it has come to command ",
                           session->next_command);
  }
  return OkStatus();
}

void Controller::Resume(const PendingOpen& open, wire::ResumeSession::Reader resume) {
  const Status status = CheckResume(open.client, resume);
  if (!status.ok()) return Refuse(open.client, status, /*resume=*/true);
  SessionEntry& session = *sessions_.Find(SessionId(resume.getSession()));
  log::Info(log::OfSession(session.id.value), "session is resumed by its client");
  session.generation = std::max(session.generation, Generation(resume.getGeneration()));
  if (resume.getClientNumber() > session.client_number) {
    // It had attached a moment before, and no worker has been told.
    session.client_number = resume.getClientNumber();
    session.bulk_key = control::ToString(resume.getBulkKey());
    session.forward_output = resume.getForwardOutput();
    session.owner = open.sender;
    Adopt(session, control::ToString(resume.getName()), resume.getHost(), resume.getPid());
  } else if (NameOf(session.owner) != NameOf(open.sender)) {
    // It shows another key than before: the workers hand that on, should this controller be lost.
    session.owner = open.sender;
    TellClient(session);
  }
  // Asked for once more by the client that has it: its last answer may have been lost.
  if (resume.getNextCommand() > session.next_command) {
    session.failure.code = StatusCode::kDataLoss;
    session.failure.message += "; commands " + std::to_string(session.next_command) + " to " +
                               std::to_string(resume.getNextCommand() - 1) +
                               " were executed by no worker";
    // Those who have come since have not had these commands either.
    for (auto& [rank, from_command] : session.replaced) {
      if (from_command == session.next_command) from_command = resume.getNextCommand();
    }
    session.next_command = resume.getNextCommand();
  }
  metrics_.counts().sessions_resumed.Add();
  HandOver(session, open);
}

}  // namespace lockstep::controller
