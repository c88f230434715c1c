#include "runtime/client/session_input.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/message_codec.h"
#include "schemas/session.capnp.h"

namespace lockstep::client {
namespace {

using std::chrono::microseconds;

// How long a waiter stays awake before it sleeps (see InputWaiter).
constexpr microseconds kPollBeforeSleep{1000};

}  // namespace

void SessionInput::StartOutput(const OutputCallback& on_output) {
  OutputListener::Source source;
  source.wait_fd = link_.wait_fd();
  source.look = [this] {
    std::lock_guard lock(mutex_);
    link_.Drain();
    return readers_ == 0;
  };
  source.begin_sleep = [this] {
    std::lock_guard lock(mutex_);
    link_.BeginSleep();
  };
  source.end_sleep = [this] {
    std::lock_guard lock(mutex_);
    link_.EndSleep();
  };
  source.taken = [this](uint64_t position) {
    std::lock_guard lock(mutex_);
    // There is no controller to be told of a session that is lost.
    if (!link_.Lost().ok()) return;
    (void)link_.Send(
        {control::EncodeMessage<wire::ClientMessage>([&](wire::ClientMessage::Builder message) {
          auto taken = message.initOutputTaken();
          taken.setSession(link_.facts().id.value);
          taken.setPosition(position);
        })});
  };
  // Held over both: the listener's thread reads nothing before it is told where lines go.
  std::lock_guard lock(mutex_);
  listener_ = std::make_unique<OutputListener>(on_output, std::move(source));
  link_.SetOnOutput([this](std::vector<WorkerOutput> lines, uint64_t position) {
    listener_->Push(std::move(lines), position);
  });
}

void SessionInput::AwaitOutput(std::unique_lock<std::mutex>& lock) {
  if (listener_ == nullptr) return;
  lock.unlock();
  listener_->AwaitHandedOver();
  lock.lock();
}

void SessionInput::StopOutput() {
  if (listener_ != nullptr) listener_->Stop();
}

bool SessionInput::WaitUntil(std::unique_lock<std::mutex>& lock, Sleeper& sleeper,
                             absl::FunctionRef<bool()> over, Deadline deadline) {
  thread_local control::YieldPhase awake(kPollBeforeSleep);
  using For = control::YieldPhase::For;
  // A yield gives the processor to threads of the same group (a terminal's, a container's), which
  // the controller of another process need not be in.
  awake.Begin(link_.by_memory() ? For::kMemory : For::kSockets);
  ++readers_;
  const Link::Looking looking(link_);
  const absl::Cleanup no_reader = [this] { --readers_; };
  while (true) {
    link_.Drain();
    if (over()) return true;
    if (deadline.Expired()) return false;
    lock.unlock();
    const bool stay_awake = awake.Yield();
    lock.lock();
    if (stay_awake) continue;
    // Asleep: woken by input, or by another thread that has read what we wait for. Now and then we
    // look whether the controller is still heard.
    constexpr int kLookMillis = 500;
    thread_local control::WakeUp wake_up;
    link_.BeginSleep();
    if (!over()) {
      sleeper.wake_fd = wake_up.fd();
      pollfd set[] = {{link_.wait_fd(), POLLIN, 0}, {wake_up.fd(), POLLIN, 0}};
      lock.unlock();
      poll(set, 2, std::min(kLookMillis, deadline.RemainingMillis()));
      lock.lock();
      sleeper.wake_fd = -1;
      if (set[1].revents != 0) wake_up.Clear();
    }
    link_.EndSleep();
  }
}

}  // namespace lockstep::client
