#include "services/worker/execute/communicator_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep::worker {

CommunicatorCache::Entry& CommunicatorCache::Use(const TeamName& name, Evicted* evicted) {
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front();
  }
  // Only teams have ranks: world and groups evict nothing, and are never evicted.
  for (const Rank rank : name.ranks) MakeRoomFor(rank, evicted);
  for (const Rank rank : name.ranks) ++teams_of_[rank];
  entries_.push_front(Entry{name, ++made_, {}});
  by_name_[name] = entries_.begin();
  return entries_.front();
}

void CommunicatorCache::MakeRoomFor(Rank rank, Evicted* evicted) {
  if (teams_of_[rank] < kMaxTeamsOfARank) return;
  const auto has_rank = [&](const Entry& entry) {
    return std::find(entry.name.ranks.begin(), entry.name.ranks.end(), rank) !=
           entry.name.ranks.end();
  };
  const auto oldest = std::prev(std::find_if(entries_.rbegin(), entries_.rend(), has_rank).base());
  for (const Rank member : oldest->name.ranks) --teams_of_[member];
  if (oldest->communicators.cpus != nullptr) {
    evicted->push_back(std::move(oldest->communicators));
  }
  by_name_.erase(oldest->name);
  entries_.erase(oldest);
}

void CommunicatorCache::ForEach(const std::function<void(const Communicators&)>& visit) const {
  for (const Entry& entry : entries_) visit(entry.communicators);
}

}  // namespace lockstep::worker
