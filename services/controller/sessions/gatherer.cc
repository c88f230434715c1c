#include "services/controller/sessions/gatherer.h"

#include <algorithm>
#include <utility>

#include "runtime/base/rank_text.h"

namespace lockstep::controller {

control::Frame PendingRequest::JoinedBodies() const {
  if (bodies.empty()) return control::Frame();
  if (bodies.size() == 1) return bodies.front();
  std::string bytes;
  for (const control::Frame& body : bodies) {
    bytes.append(reinterpret_cast<const char*>(body.data()), body.size());
  }
  return control::Frame::Copy(bytes.data(), bytes.size());
}

void Gatherer::Expect(const control::PeerName& client, SessionId session, RequestId request,
                      int workers, Rank from, Deadline deadline, TimePoint now,
                      std::string beside) {
  PendingRequest pending;
  pending.client = client;
  pending.session = session;
  pending.request = request;
  pending.deadline = deadline;
  pending.began = now;
  pending.beside = std::move(beside);
  pending.waiting.assign(static_cast<size_t>(workers), from < 0);
  if (from >= 0) pending.waiting[static_cast<size_t>(from)] = true;
  pending.missing = from < 0 ? workers : 1;
  const bool is_new = pending_.insert_or_assign(Key{session, request}, std::move(pending)).second;
  if (is_new) ++counts_[session];
}

size_t Gatherer::CountOf(SessionId session) const {
  const auto found = counts_.find(session);
  return found == counts_.end() ? 0 : found->second;
}

void Gatherer::Answer(SessionId session, RequestId request, Rank rank,
                      const control::RemoteError& error, control::Frame body) {
  const auto found = pending_.find({session, request});
  if (found == pending_.end()) return;
  PendingRequest& pending = found->second;
  if (!pending.waiting[static_cast<size_t>(rank)]) return;
  pending.waiting[static_cast<size_t>(rank)] = false;
  --pending.missing;
  // An abort is a consequence; whatever else comes is nearer to the cause.
  if (!error.ok() && (pending.error.ok() || pending.error.code == StatusCode::kAborted)) {
    pending.error = error;
  }
  if (body.size() > 0) pending.bodies.push_back(std::move(body));
  if (pending.missing == 0) Complete(found);
}

void Gatherer::Complete(std::map<Key, PendingRequest>::iterator request) {
  const PendingRequest done = std::move(request->second);
  pending_.erase(request);
  const auto count = counts_.find(done.session);
  if (--count->second == 0) counts_.erase(count);
  finish_(done);
}

void Gatherer::FailAll(SessionId session, const control::RemoteError& error) {
  for (auto it = pending_.lower_bound({session, RequestId()});
       it != pending_.end() && it->first.first == session;) {
    const auto request = it++;
    request->second.error = error;
    Complete(request);
  }
}

Deadline Gatherer::Expire(TimePoint now) {
  Deadline next = Deadline::At(now + std::chrono::hours(1));
  for (auto it = pending_.begin(); it != pending_.end();) {
    const auto request = it++;
    PendingRequest& pending = request->second;
    if (pending.deadline.when() > now) {
      next = next.Earlier(pending.deadline);
      continue;
    }
    std::vector<Rank> late;
    for (size_t rank = 0; rank < pending.waiting.size(); ++rank) {
      if (pending.waiting[rank]) late.push_back(static_cast<Rank>(rank));
    }
    pending.error = pending.beside.empty()
                        ? late_(pending.session, late)
                        : control::ErrorOf(DeadlineExceeded(
                              "no answer in time: ", ListRanks(late), " did not yet ",
                              pending.beside, "; they go on, and asking once more waits for that"));
    Complete(request);
  }
  return next;
}

}  // namespace lockstep::controller
