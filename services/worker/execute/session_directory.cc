#include "services/worker/execute/session_directory.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/quantity.h"
#include "runtime/collective/groups.h"

namespace lockstep::worker {

void SessionDirectory::SetController(const Membership& membership) {
  std::lock_guard lock(mutex_);
  early_aborts_.clear();
  for (const auto& [id, session] : sessions_) session->ForgetEarlyAborts();
  last_session_ = SessionId();
  for (const control::SessionRecord& record : membership.sessions) {
    last_session_ = std::max(last_session_, record.id);
  }
}

void SessionDirectory::AdoptWelcome(const Membership& membership) {
  world_size_ = membership.world_size();
  std::map<SessionId, const control::SessionRecord*> welcome;
  for (const control::SessionRecord& record : membership.sessions) welcome[record.id] = &record;
  for (const control::SessionRecord& here : Inventory()) {
    const auto found = welcome.find(here.id);
    const bool is_known = found != welcome.end() && found->second->token == here.token;
    if (is_known && !membership.forget && HasGroupsHere(here)) continue;
    log::Warn(log::OfSession(here.id.value), "session is closed here: ",
              is_known ? "it went on without this worker" : "the controller does not know it");
    Close(*Find(here.id), /*client_lost=*/true);
  }
  for (const auto& [id, record] : welcome) {
    if (Find(id) == nullptr) Open(*record);
    const auto session = Find(id);
    if (session == nullptr) continue;
    session->LeaveWorld(*record);
    // Another client has attached to it, which this worker had yet to be told.
    if (record->client_number > session->client_number()) Adopt(*session, *record);
  }
}

std::shared_ptr<SessionState> SessionDirectory::Find(SessionId id) {
  std::lock_guard lock(mutex_);
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<SessionState>> SessionDirectory::All() {
  std::vector<std::shared_ptr<SessionState>> sessions;
  std::lock_guard lock(mutex_);
  for (const auto& [id, session] : sessions_) sessions.push_back(session);
  return sessions;
}

size_t SessionDirectory::Count() {
  std::lock_guard lock(mutex_);
  return sessions_.size();
}

std::vector<control::SessionRecord> SessionDirectory::Inventory() {
  std::vector<control::SessionRecord> records;
  std::lock_guard lock(mutex_);
  for (const auto& [id, session] : sessions_) records.push_back(session->Record());
  return records;
}

std::string SessionDirectory::DescribeMemoryUse() {
  std::string text;
  std::lock_guard lock(mutex_);
  for (const auto& [id, session] : sessions_) {
    text += (text.empty() ? "session " : ", session ") + std::to_string(id.value) + " holds " +
            RoundedSize(session->registers().held_bytes()) + ", here and in host memory";
  }
  return text;
}

// All that counts in groups divides by their number.
bool SessionDirectory::HasGroupsHere(const control::SessionRecord& record) const {
  return collective::Groups::Split(world_size_, record.num_groups).ok();
}

void SessionDirectory::Open(const control::SessionRecord& record) {
  lent_memory_.FreeUnreachable(arena_.name());
  if (!HasGroupsHere(record)) {
    log::Error(log::OfSession(record.id.value), "session cannot be opened: it has ",
               record.num_groups, " groups, and the world ", world_size_, " ranks");
    return;
  }
  const StatusOr<registers::RegisterFile*> file = registers_.Open(record.id);
  if (!file.ok()) {
    log::Error(log::OfSession(record.id.value),
               "session cannot be opened: ", Message(file.status()));
    return;
  }
  const auto session = std::make_shared<SessionState>(record, *file, &bulk_);
  if (bulk_.gate() != nullptr) bulk_.gate()->LetIn(record.id, record.bulk_key);
  std::lock_guard lock(mutex_);
  sessions_[record.id] = session;
  last_session_ = std::max(last_session_, record.id);
  std::erase_if(early_aborts_, [&](const EarlyAbort& abort) {
    if (abort.session == record.id) session->Abort(abort.abort);
    return abort.session <= record.id;
  });
}

void SessionDirectory::Close(SessionState& session, bool client_lost) {
  TakeFromClient(session, client_lost);
  const SessionId id = session.id();
  if (bulk_.gate() != nullptr) bulk_.gate()->ShutOut(id);
  const Status status = registers_.Close(id);
  if (!status.ok()) log::Error(log::OfSession(id.value), Message(status));
  {
    std::lock_guard lock(mutex_);
    sessions_.erase(id);
  }
  lent_memory_.FreeUnreachable(arena_.name());
}

void SessionDirectory::Adopt(SessionState& session, const control::SessionRecord& record) {
  // What the client knows of the tensors here holds.
  if (record.client_number == session.client_number()) return session.SetOwner(record.owner);
  TakeFromClient(session, record.client_lost);
  session.Adopt(record);
  if (bulk_.gate() != nullptr) bulk_.gate()->LetIn(record.id, record.bulk_key);
}

void SessionDirectory::TakeFromClient(SessionState& session, bool client_lost) {
  // A copy is over when its client closes the session; a loan need not be.
  std::vector<registers::Value> reachable = session.loans().TakeAll();
  std::vector<registers::Value> located = session.WithdrawTickets();
  if (client_lost) std::move(located.begin(), located.end(), std::back_inserter(reachable));
  std::optional<WatchedProcess> client = session.TakeClientProcess();
  if (reachable.empty() || !client.has_value()) return;
  if (LentMemoryReclaimer::MayWriteTo(arena_.name(), *client)) {
    lent_memory_.Keep(*std::move(client), std::move(reachable));
  }
}

void SessionDirectory::Abort(SessionId session, const AbortOrder& abort) {
  std::shared_ptr<SessionState> state;
  {
    std::lock_guard lock(mutex_);
    const auto found = sessions_.find(session);
    if (found != sessions_.end()) {
      state = found->second;
    } else if (session > last_session_) {
      early_aborts_.push_back({session, abort});
    }
  }
  if (state != nullptr) state->Abort(abort);
}

void SessionDirectory::AbortAll(const control::RemoteError& cause) {
  for (const auto& session : All()) {
    session->Abort({session->generation(), 0, cause});
    session->GiveUpAllOnGpu();
  }
}

}  // namespace lockstep::worker
