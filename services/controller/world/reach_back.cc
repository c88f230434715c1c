#include "services/controller/world/reach_back.h"

#include <poll.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "runtime/control/local_address.h"
#include "runtime/control/tcp_attempt.h"

namespace lockstep::controller {
namespace {

// A worker that still wants to join asks again within this time.
constexpr std::chrono::seconds kForgetAfter{30};

}  // namespace

ReachBack::ReachBack(std::function<void()> on_result, std::chrono::milliseconds patience)
    : on_result_(std::move(on_result)), patience_(patience), thread_([this] { Run(); }) {}

ReachBack::~ReachBack() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_up_.Signal();
  thread_.join();
}

std::optional<Status> ReachBack::Ask(const std::string& endpoint) {
  if (control::HostOf(endpoint).empty()) return OkStatus();
  std::lock_guard lock(mutex_);
  Known& known = known_[endpoint];
  known.asked = Deadline::Clock::now();
  const std::optional<std::string> obstacle = known.obstacle;
  if (obstacle.has_value() && obstacle->empty()) {
    known_.erase(endpoint);
    return OkStatus();
  }
  if (!std::exchange(known.being_tried, true)) {
    wanted_.push_back(endpoint);
    wake_up_.Signal();
  }
  if (!obstacle.has_value()) return std::nullopt;
  return Unavailable(endpoint, " does not answer: ", *obstacle);
}

std::optional<std::deque<std::string>> ReachBack::TakeWanted() {
  std::lock_guard lock(mutex_);
  wake_up_.Clear();
  if (stopping_) return std::nullopt;
  const auto now = Deadline::Clock::now();
  std::erase_if(known_, [&](const auto& entry) {
    return !entry.second.being_tried && now - entry.second.asked > kForgetAfter;
  });
  return std::exchange(wanted_, std::deque<std::string>());
}

void ReachBack::Finish(const std::string& endpoint, const std::string& obstacle) {
  {
    std::lock_guard lock(mutex_);
    Known& known = known_[endpoint];
    known.being_tried = false;
    known.obstacle = obstacle;
  }
  on_result_();
}

void ReachBack::Run() {
  std::list<control::TcpAttempt> attempts;
  std::vector<pollfd> waits;
  while (std::optional<std::deque<std::string>> wanted = TakeWanted()) {
    for (std::string& endpoint : *wanted) attempts.emplace_back(std::move(endpoint), patience_);
    waits.assign(1, {wake_up_.fd(), POLLIN, 0});
    int wait_ms = -1;
    for (auto it = attempts.begin(); it != attempts.end();) {
      if (it->obstacle().has_value()) {
        Finish(it->endpoint(), *it->obstacle());
        it = attempts.erase(it);
        continue;
      }
      waits.push_back(it->Wait());
      const int left = it->deadline().RemainingMillis();
      wait_ms = wait_ms < 0 ? left : std::min(wait_ms, left);
      ++it;
    }
    poll(waits.data(), waits.size(), wait_ms);
    auto wait = std::next(waits.begin());
    for (control::TcpAttempt& attempt : attempts) {
      const bool has_event = (wait++)->revents != 0;
      if (has_event || attempt.deadline().Expired()) attempt.Look(has_event);
    }
  }
}

}  // namespace lockstep::controller
