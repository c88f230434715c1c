#include "services/controller/sessions/restored_sessions.h"

#include <algorithm>
#include <string>

#include "runtime/base/rank_text.h"

namespace lockstep::controller {
namespace {

// One session as its ranks know it.
using Copies = std::map<Rank, const control::SessionRecord*>;

// What some ranks have been sent of the session and others have not.
std::string DescribeDifferences(const Copies& copies, uint64_t next_command) {
  std::vector<Rank> ahead;
  std::vector<Rank> behind;
  uint64_t first = next_command;
  for (const auto& [rank, record] : copies) {
    (record->next_command == next_command ? ahead : behind).push_back(rank);
    first = std::min(first, record->next_command);
  }
  if (behind.empty()) return "";
  return "; commands " + std::to_string(first) + " to " + std::to_string(next_command - 1) +
         " have reached " + ListRanks(ahead) + ", but not, or not all of them, " +
         ListRanks(behind) + ": registers that they change may differ";
}

RestoredSession Merge(const Copies& copies, int world_size) {
  const auto by_progress = [](const auto& a, const auto& b) {
    return a.second->next_command < b.second->next_command;
  };
  const auto most = std::max_element(copies.begin(), copies.end(), by_progress);
  RestoredSession session;
  session.record = *most->second;
  for (const auto& [rank, record] : copies) {
    // Not all have been told of the last client that attached.
    if (record->client_number > session.record.client_number) session.record.TakeClientOf(*record);
    if (record->first_command > 1) session.replaced[rank] = record->first_command;
    session.record.generation = std::max(session.record.generation, record->generation);
    session.record.register_generations =
        std::max(session.record.register_generations, record->register_generations);
  }
  const std::string differences = DescribeDifferences(copies, session.record.next_command);
  session.record.failure = control::ErrorOf(MakeStatus(
      differences.empty() ? StatusCode::kUnavailable : StatusCode::kDataLoss,
      "the controller was restarted: what was under way is lost, registers keep their values",
      differences));
  session.record.failure.session = session.record.id;
  session.record.first_command = 1;
  for (Rank rank = 0; rank < world_size; ++rank) {
    if (!copies.contains(rank)) session.replaced[rank] = session.record.next_command;
  }
  return session;
}

}  // namespace

std::vector<const Inventory*> CountingInventories(std::vector<const Inventory*> by_rank) {
  const auto world_size = static_cast<int>(by_rank.size());
  Epoch latest;
  for (const Inventory*& inventory : by_rank) {
    if (inventory != nullptr && inventory->world_size != world_size) inventory = nullptr;
    if (inventory != nullptr) latest = std::max(latest, inventory->worked_epoch);
  }
  for (const Inventory*& inventory : by_rank) {
    if (inventory != nullptr && inventory->epoch < latest) inventory = nullptr;
  }
  return by_rank;
}

std::vector<RestoredSession> RestoreSessions(const std::vector<const Inventory*>& by_rank) {
  const auto world_size = static_cast<int>(by_rank.size());
  std::map<SessionId, Copies> sessions;
  for (Rank rank = 0; rank < world_size; ++rank) {
    const Inventory* inventory = by_rank[static_cast<size_t>(rank)];
    if (inventory == nullptr) continue;
    for (const control::SessionRecord& record : inventory->sessions) {
      // None that a controller has opened in a world of this size.
      if (record.num_groups < 1 || world_size % record.num_groups != 0) continue;
      sessions[record.id][rank] = &record;
    }
  }
  std::vector<RestoredSession> restored;
  for (const auto& [id, copies] : sessions) restored.push_back(Merge(copies, world_size));
  return restored;
}

}  // namespace lockstep::controller
