#include "services/worker/execute/lent_memory_reclaimer.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep::worker {

void LentMemoryReclaimer::Keep(WatchedProcess client, std::vector<registers::Value> tensors) {
  for (Entry& entry : entries_) {
    // The kernel gives a number away again once its process has ended.
    if (entry.client.pid() != client.pid() || entry.client.HasEnded()) continue;
    std::move(tensors.begin(), tensors.end(), std::back_inserter(entry.tensors));
    return;
  }
  entries_.push_back({std::move(client), std::move(tensors)});
  ListDescriptors();
}

template <typename Is>
void LentMemoryReclaimer::FreeThoseThat(Is is) {
  if (std::erase_if(entries_, [&](const Entry& entry) { return is(entry.client); }) > 0) {
    ListDescriptors();
  }
}

void LentMemoryReclaimer::FreeEnded() {
  FreeThoseThat([](const WatchedProcess& client) { return client.HasEnded(); });
}

void LentMemoryReclaimer::FreeUnreachable(std::string_view arena) {
  FreeThoseThat([&](const WatchedProcess& client) { return !MayWriteTo(arena, client); });
}

bool LentMemoryReclaimer::MayWriteTo(std::string_view arena, const WatchedProcess& client) {
  const StatusOr<bool> maps = client.Maps(arena);
  return maps.ok() ? *maps : maps.status().code() != StatusCode::kNotFound;
}

void LentMemoryReclaimer::ListDescriptors() {
  descriptors_.clear();
  for (const Entry& entry : entries_) descriptors_.push_back(entry.client.fd());
}

}  // namespace lockstep::worker
