#include "services/controller/reports/unread_answers.h"

#include <algorithm>
#include <utility>

namespace lockstep::controller {
namespace {

// Keeps the bytes of a frame, and counts them while it does.
struct Charged {
  Charged(control::Frame bytes, std::shared_ptr<std::atomic<size_t>> its_client,
          std::shared_ptr<std::atomic<size_t>> of_all)
      : frame(std::move(bytes)), client(std::move(its_client)), all(std::move(of_all)) {
    client->fetch_add(frame.size(), std::memory_order_relaxed);
    all->fetch_add(frame.size(), std::memory_order_relaxed);
  }
  ~Charged() {
    client->fetch_sub(frame.size(), std::memory_order_relaxed);
    all->fetch_sub(frame.size(), std::memory_order_relaxed);
  }
  Charged(const Charged&) = delete;
  Charged& operator=(const Charged&) = delete;

  const control::Frame frame;
  const std::shared_ptr<std::atomic<size_t>> client;
  const std::shared_ptr<std::atomic<size_t>> all;
};

}  // namespace

Status UnreadAnswers::CheckRoom(const control::PeerName& client) const {
  const auto found = counts_.find(client);
  const size_t own = found == counts_.end() ? 0 : found->second->load(std::memory_order_relaxed);
  if (own > kMostOfOne) {
    return ResourceExhausted("you have not read the last ", own,
                             " bytes of answers yet; ask again when you have");
  }
  const size_t all = all_->load(std::memory_order_relaxed);
  if (own > 0 && all > kMostOfAll) {
    return ResourceExhausted("you have not read the last ", own, " bytes of answers yet, and all ",
                             "clients together ", all, "; ask again when you have");
  }
  return OkStatus();
}

control::Message UnreadAnswers::Charge(const control::PeerName& client,
                                       const control::Message& message) {
  Sweep();
  Count& count = counts_[client];
  if (count == nullptr) count = std::make_shared<std::atomic<size_t>>(0);
  control::Message charged;
  for (const control::Frame& frame : message) {
    const auto owner = std::make_shared<const Charged>(frame, count, all_);
    charged.push_back(control::Frame(owner, frame.data(), frame.size()));
  }
  return charged;
}

void UnreadAnswers::Sweep() {
  if (counts_.size() < sweep_at_) return;
  std::erase_if(counts_, [](const auto& entry) { return entry.second.use_count() == 1; });
  sweep_at_ = std::max<size_t>(64, 2 * counts_.size());
}

}  // namespace lockstep::controller
