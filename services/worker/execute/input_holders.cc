#include "services/worker/execute/input_holders.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep::worker {

void InputHolders::Add(uint32_t register_index, std::weak_ptr<InputHolder> holder) {
  by_index_[register_index].push_back(std::move(holder));
  if (++count_ >= forget_at_) ForgetThoseThatAreGone();
}

void InputHolders::LetGo(uint32_t register_index) {
  const auto found = by_index_.find(register_index);
  if (found == by_index_.end()) return;
  for (const std::weak_ptr<InputHolder>& weak : found->second) {
    const std::shared_ptr<InputHolder> holder = weak.lock();
    if (holder != nullptr) holder->LetGo(register_index);
  }
}

void InputHolders::LetGoOfAll() {
  for (const auto& [register_index, holders] : by_index_) LetGo(register_index);
}

// After as many were added as there were left the last time: a bind pays for a few.
void InputHolders::ForgetThoseThatAreGone() {
  count_ = 0;
  for (auto at = by_index_.begin(); at != by_index_.end();) {
    std::erase_if(at->second, [](const auto& weak) { return weak.expired(); });
    count_ += at->second.size();
    at = at->second.empty() ? by_index_.erase(at) : std::next(at);
  }
  forget_at_ = std::max<size_t>(64, 2 * count_);
}

}  // namespace lockstep::worker
