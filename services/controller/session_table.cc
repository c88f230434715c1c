#include "services/controller/session_table.h"

#include <algorithm>

#include "runtime/control/host.h"

namespace lockstep::controller {

uint64_t SessionEntry::SlowestConsumed() const {
  return *std::min_element(consumed.begin(), consumed.end());
}

SessionEntry& SessionTable::Add(SessionId id) {
  SessionEntry& session = sessions_[id];
  session.consumed.assign(static_cast<size_t>(workers_), 0);
  session.come_to.assign(static_cast<size_t>(workers_), Generation());
  session.last_heard = Deadline::Clock::now();
  return session;
}

SessionEntry& SessionTable::Open(const control::PeerName& client) {
  const SessionId id(++last_id_);
  SessionEntry& session = Add(id);
  session.id = id;
  session.client = client;
  session.token = control::RandomHex(16);
  return session;
}

SessionEntry& SessionTable::Restore(const control::SessionRecord& record) {
  last_id_ = std::max(last_id_, record.id.value);
  SessionEntry& session = Add(record.id);
  static_cast<control::SessionRecord&>(session) = record;
  return session;
}

SessionEntry* SessionTable::Find(SessionId id) {
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

std::vector<SessionId> SessionTable::Ids() const {
  std::vector<SessionId> ids;
  ids.reserve(sessions_.size());
  for (const auto& [id, session] : sessions_) ids.push_back(id);
  return ids;
}

}  // namespace lockstep::controller
