#include "services/worker/execute/lent_memory_reclaimer.h"

#include <utility>

namespace lockstep::worker {

void LentMemoryReclaimer::Keep(WatchedProcess client, std::vector<registers::Value> tensors) {
  entries_.push_back({std::move(client), std::move(tensors)});
  ListDescriptors();
}

void LentMemoryReclaimer::FreeEnded() {
  if (std::erase_if(entries_, [](const Entry& entry) { return entry.client.HasEnded(); }) > 0) {
    ListDescriptors();
  }
}

void LentMemoryReclaimer::ListDescriptors() {
  descriptors_.clear();
  for (const Entry& entry : entries_) descriptors_.push_back(entry.client.fd());
}

}  // namespace lockstep::worker
