#include "services/controller/sessions/session_table.h"

#include <algorithm>
#include <utility>

#include "runtime/base/random.h"
#include "runtime/base/rank_text.h"

namespace lockstep::controller {
namespace {

// What a name takes up, its register included.
size_t NameCost(const std::string& text) { return text.size() + 64; }

}  // namespace

control::SessionRecord SessionEntry::Record() const {
  control::SessionRecord record = *this;
  record.next_command = commands.next_command();
  return record;
}

control::RemoteError SessionEntry::FailureOnAllRanks() const {
  control::RemoteError error = failure;
  if (!failed_alike.empty()) {
    error.message += "; " + ListRanks(failed_alike) + " failed at this command as well";
  }
  return error;
}

void SessionEntry::TakeOver(const control::SessionRecord& record) {
  static_cast<control::SessionRecord&>(*this) = record;
  names.clear();
  name_bytes_ = 0;
  for (const auto& [text, named] : record.names) Name(text, named);
}

void SessionEntry::KeepWithoutClient(Deadline until) {
  client.clear();
  SetProcess(nullptr);
  kept_until = until;
}

void SessionEntry::SetProcess(std::shared_ptr<const ClientProcess> process) {
  this->process = std::move(process);
  ended_at.reset();
}

SessionEntry& SessionTable::Add(SessionId id, uint64_t next_command, TimePoint now) {
  SessionEntry& session = sessions_[id];
  session.commands = CommandStream(id, workers_, next_command);
  session.come_to.assign(static_cast<size_t>(workers_), Generation());
  session.last_heard = session.known_since = now;
  return session;
}

SessionEntry& SessionTable::Open(const control::PeerName& client, TimePoint now) {
  const SessionId id(++last_id_);
  SessionEntry& session = Add(id, 1, now);
  session.id = id;
  session.client = client;
  session.token = RandomHex(16);
  return session;
}

SessionEntry& SessionTable::Restore(const control::SessionRecord& record, TimePoint now) {
  last_id_ = std::max(last_id_, record.id.value);
  SessionEntry& session = Add(record.id, record.next_command, now);
  session.TakeOver(record);
  // What workers did in those before has ended with their controller.
  session.come_to.assign(session.come_to.size(), session.generation);
  return session;
}

void SessionEntry::Name(const std::string& text, const control::NamedRegister& named) {
  if (names.insert_or_assign(text, named).second) name_bytes_ += NameCost(text);
}

void SessionEntry::Unname(const std::string& text) {
  if (names.erase(text) > 0) name_bytes_ -= NameCost(text);
}

Status SessionTable::CheckRoomForName(const SessionEntry& session, const std::string& text) const {
  if (session.names.size() >= kMostNames) {
    return ResourceExhausted("session ", session.id, " has ", kMostNames,
                             " names; take one back first");
  }
  size_t of_all = NameCost(text);
  size_t of_key = of_all;
  for (const auto& [id, other] : sessions_) {
    of_all += other.name_bytes();
    const bool same_key = session.owner.has_value() && other.owner.has_value() &&
                          session.owner->name == other.owner->name;
    if (same_key) of_key += other.name_bytes();
  }
  if (of_key > kMostNameBytesOfKey) {
    return ResourceExhausted("the names in the sessions of \"", session.owner->name,
                             "\" would take up ", of_key, " bytes, more than the ",
                             kMostNameBytesOfKey, " that one key may have; take some back first");
  }
  if (of_all > kMostNameBytes) {
    return ResourceExhausted("the names in all sessions would take up ", of_all,
                             " bytes, more than the ", kMostNameBytes,
                             " that a cluster has; take some back first");
  }
  return OkStatus();
}

SessionEntry* SessionTable::Find(SessionId id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second;
}

const SessionEntry* SessionTable::Find(SessionId id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second;
}

StatusOr<SessionEntry*> SessionTable::FindOwned(SessionId id, const control::PeerName& client) {
  SessionEntry* session = Find(id);
  if (session == nullptr || session->client.empty()) {
    return NotFound(
        "session ", id,
        " is not open: it was closed, or its lease ran out while the client was silent");
  }
  if (session->client != client) {
    return PermissionDenied("session ", id, " belongs to another client");
  }
  return session;
}

StatusOr<SessionEntry*> SessionTable::FindHeard(SessionId id, const control::PeerName& client) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry * session, FindOwned(id, client));
  ++session->heard_messages;
  return session;
}

StatusOr<SessionEntry*> SessionTable::FindOpen(SessionId id, const control::PeerName& client) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry * session, FindHeard(id, client));
  if (session->ending.has_value()) return BeingClosed(id);
  return session;
}

Status SessionTable::BeingClosed(SessionId id) {
  return FailedPrecondition("session ", id, " is being closed");
}

std::vector<SessionId> SessionTable::Ids() const {
  std::vector<SessionId> ids;
  ids.reserve(sessions_.size());
  for (const auto& [id, session] : sessions_) ids.push_back(id);
  return ids;
}

}  // namespace lockstep::controller
