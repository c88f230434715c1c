#include "runtime/control/input_waiter.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace lockstep::control {
namespace {

// Waiting threads that yield to each other come back within a few microseconds each.
constexpr std::chrono::microseconds kLongYieldForSockets{100};
constexpr std::chrono::microseconds kLongYieldForMemory{1000};
// After a long yield, and where one follows another.
constexpr Crowd::Clock::duration kShortestCrowd = std::chrono::milliseconds(4);
constexpr Crowd::Clock::duration kLongestCrowd = std::chrono::milliseconds(128);

}  // namespace

void Crowd::NoteLongYield(Clock::time_point now) {
  const bool is_there_yet = waits_ <= kShortWaits;
  length_ =
      std::clamp(is_there_yet ? 2 * length_ : Clock::duration(0), kShortestCrowd, kLongestCrowd);
  until_ = now + length_;
  waits_ = 0;
}

void YieldPhase::Begin(For what) {
  long_yield_ = what == For::kMemory ? kLongYieldForMemory : kLongYieldForSockets;
  const auto now = Crowd::Clock::now();
  end_ = crowd_.Lasts(now) ? now : now + longest_;
  has_yielded_ = false;
}

bool YieldPhase::Yield() {
  const auto before = Crowd::Clock::now();
  if (before >= end_) return false;
  if (!std::exchange(has_yielded_, true)) crowd_.NoteWait();
  sched_yield();
  const auto after = Crowd::Clock::now();
  if (after - before > long_yield_) {
    crowd_.NoteLongYield(after);
    end_ = after;
  }
  return true;
}

namespace {

// The channels' descriptors, then the others.
using PollSet = absl::InlinedVector<pollfd, 8>;

using Sharing = InputWaiter::Sharing;

// Does what needs no channel; others may use them meanwhile.
template <typename Do>
auto Apart(Sharing* sharing, Do&& what) {
  if (sharing != nullptr) sharing->Release();
  const auto result = what();
  if (sharing != nullptr) sharing->Acquire();
  return result;
}

// Sleeps until something is readable. True if a plain descriptor is, or if a channel has input: a
// channel's descriptor alone may mean less.
bool Poll(PollSet& set, absl::Span<Channel* const> channels, int timeout_millis, Sharing* sharing) {
  const int readable = Apart(sharing, [&] { return poll(set.data(), set.size(), timeout_millis); });
  if (readable <= 0) return false;
  for (size_t i = 0; i < set.size(); ++i) {
    if (set[i].revents == 0) continue;
    if (i >= channels.size() || channels[i]->HasInput()) return true;
  }
  return false;
}

// Of channels whose descriptors do not tell.
bool HasUndrainedInput(absl::Span<Channel* const> channels) {
  for (Channel* channel : channels) {
    if (!channel->drained() && channel->HasInput()) return true;
  }
  return false;
}

// Descriptors are looked at in one of so many turns if no channel needs its own to tell.
constexpr unsigned kTurnsBetweenPolls = 32;

bool AnyDrained(absl::Span<Channel* const> channels) {
  return std::any_of(channels.begin(), channels.end(),
                     [](const Channel* channel) { return channel->drained(); });
}

// Sleeps once; true as Poll().
bool Sleep(PollSet& set, absl::Span<Channel* const> channels, Deadline deadline, Sharing* sharing) {
  Deadline until = deadline;
  if (sharing != nullptr) {
    until = sharing->BeginSleep(deadline);
  } else {
    for (Channel* channel : channels) channel->BeginSleep();
  }
  const bool woken =
      HasUndrainedInput(channels) || Poll(set, channels, until.RemainingMillis(), sharing);
  if (sharing != nullptr) {
    const bool called = sharing->EndSleep();
    return woken || called || (until.Expired() && !deadline.Expired());
  }
  for (Channel* channel : channels) channel->EndSleep();
  return woken;
}

}  // namespace

bool InputWaiter::Wait(absl::Span<Channel* const> channels, absl::Span<const int> descriptors,
                       Deadline deadline, Sharing* sharing) {
  const bool is_a_look = deadline.Expired();
  const bool has_input = WaitFor(channels, descriptors, deadline, sharing);
  if (!is_a_look) had_input_ = has_input;
  return has_input;
}

bool InputWaiter::WaitFor(absl::Span<Channel* const> channels, absl::Span<const int> descriptors,
                          Deadline deadline, Sharing* sharing) {
  PollSet set;
  for (Channel* channel : channels) set.push_back({channel->wait_fd(), POLLIN, 0});
  for (int descriptor : descriptors) set.push_back({descriptor, POLLIN, 0});

  // Input that is there already may not make its descriptor readable any more.
  if (HasUndrainedInput(channels)) return true;
  const bool has_sockets = channels.empty() || AnyDrained(channels);
  awake_.Begin(has_sockets ? YieldPhase::For::kSockets : YieldPhase::For::kMemory);
  const auto stays_awake = [&] {
    if (!had_input_ || deadline.Expired() || (sharing != nullptr && !sharing->StaysAwake()))
      return false;
    return Apart(sharing, [&] { return awake_.Yield(); });
  };
  while (stays_awake()) {
    if (HasUndrainedInput(channels)) return true;
    const bool must_poll = ++turns_ % kTurnsBetweenPolls == 0 || AnyDrained(channels);
    if (must_poll && Poll(set, channels, 0, sharing)) return true;
  }
  do {
    if (Sleep(set, channels, deadline, sharing)) return true;
  } while (!deadline.Expired());
  return false;
}

// An eventfd can only fail for want of descriptors; then -1 is never readable and waits end at
// their deadlines.
WakeUp::WakeUp() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

WakeUp::~WakeUp() {
  if (fd_ >= 0) close(fd_);
}

void WakeUp::Signal() {
  const uint64_t one = 1;
  // Full (EAGAIN) means that it is readable already.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
}

void WakeUp::Clear() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t read_bytes = read(fd_, &count, sizeof count);
}

}  // namespace lockstep::control
