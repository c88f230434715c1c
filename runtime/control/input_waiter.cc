#include "runtime/control/input_waiter.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "absl/container/inlined_vector.h"

namespace lockstep::control {
namespace {

bool AnyHasInput(absl::Span<Channel* const> channels) {
  return std::any_of(channels.begin(), channels.end(),
                     [](Channel* channel) { return channel->HasInput(); });
}

using PollSet = absl::InlinedVector<pollfd, 8>;

// True if one of the plain descriptors (those after the channels') is readable.
bool Poll(PollSet& set, size_t channels, int timeout_millis) {
  if (poll(set.data(), set.size(), timeout_millis) <= 0) return false;
  return std::any_of(set.begin() + static_cast<ptrdiff_t>(channels), set.end(),
                     [](const pollfd& entry) { return entry.revents != 0; });
}

}  // namespace

bool InputWaiter::Wait(absl::Span<Channel* const> channels, absl::Span<const int> descriptors,
                       Deadline deadline) {
  if (AnyHasInput(channels)) return true;
  PollSet set;
  for (Channel* channel : channels) set.push_back({channel->wait_fd(), POLLIN, 0});
  for (int descriptor : descriptors) set.push_back({descriptor, POLLIN, 0});

  // Descriptors are looked at once per so many rounds: they carry rare events.
  constexpr int kDescriptorRounds = 16;
  awake_.Begin();
  for (int round = 1; !deadline.Expired() && awake_.Yield(); ++round) {
    if (AnyHasInput(channels)) return true;
    if (round % kDescriptorRounds == 0 && Poll(set, channels.size(), 0)) return true;
  }
  while (true) {
    if (AnyHasInput(channels)) return true;
    if (Poll(set, channels.size(), deadline.RemainingMillis())) return true;
    if (AnyHasInput(channels)) return true;
    if (deadline.Expired()) return false;
  }
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
