#include "services/controller/world/connection_watch.h"

#include <utility>

namespace lockstep::controller {
namespace {

// A worker that works off its queue waits between two batches, too, but never long for the same.
constexpr int kLooks = 4;

}  // namespace

void ConnectionWatch::Restart(TimePoint now) {
  due_ = next_due_ = 0;
  next_due_at_ = Deadline::At(now + delivery_time_);
}

void ConnectionWatch::Begin(TimePoint now, uint64_t ordered) {
  now_ = now;
  if (now < next_due_at_.when()) return;
  due_ = std::exchange(next_due_, ordered);
  next_due_at_ = Deadline::At(now + delivery_time_);
}

void ConnectionWatch::Forgive(Rank rank) {
  waiting_[static_cast<size_t>(rank)] = {.forgiven_until = now_ + delivery_time_};
}

bool ConnectionWatch::IsBroken(Rank rank, bool is_due, const WorkerActivity& activity) {
  Waiting& waiting = waiting_[static_cast<size_t>(rank)];
  const bool waits = is_due && now_ >= waiting.forgiven_until &&
                     activity.launched == activity.completed && activity.received < due_;
  const bool as_before =
      waiting.received == activity.received && waiting.launched == activity.launched;
  waiting.received = activity.received;
  waiting.launched = activity.launched;
  waiting.looks = waits && as_before ? waiting.looks + 1 : 0;
  return waiting.looks >= kLooks;
}

std::string ConnectionWatch::Describe(const WorkerActivity& activity) const {
  return "it waits for commands, but has not got batch " + std::to_string(activity.received + 1) +
         ", sent more than " + std::to_string(delivery_time_.count()) +
         " ms ago: its connection is broken";
}

}  // namespace lockstep::controller
