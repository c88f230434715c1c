#include "runtime/collective/shm/waiter.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "runtime/base/cores.h"

namespace lockstep::collective::shm {
namespace {

// Peers that run on other cores and come at about the same time are met within this. Longer is
// worse: should two ranks share a core after all, each round of spinning keeps the peer from
// coming.
constexpr auto kSpinFor = std::chrono::microseconds(4);

// How often Pause() fits into kSpinFor: it takes from 10 to 50 ns, depending on the processor.
int CountPauses() {
  constexpr int kSample = 32;
  constexpr int kSamples = 5;
  auto fastest = Deadline::Clock::duration::max();
  for (int i = 0; i < kSamples; ++i) {
    const auto begin = Deadline::Clock::now();
    for (int k = 0; k < kSample; ++k) Pause();
    fastest = std::min(fastest, Deadline::Clock::now() - begin);
  }
  return static_cast<int>(kSample * kSpinFor / std::max(fastest, Deadline::Clock::duration(1)));
}

int Spins() {
  static const int spins = CountPauses();
  return spins;
}

}  // namespace

void YieldProcessor() { sched_yield(); }

Waiter::Waiter(const WaitPolicy& policy, int world_size, Attention& attention)
    : spins_(policy.spins != WaitPolicy::kAutomatic ? policy.spins
             : world_size <= UsableCores()          ? Spins()
                                                    : 0),
      yield_for_(policy.yield_for),
      look_after_(policy.look_after),
      attention_(attention) {}

void Waiter::Ring(Attention& attention) {
  attention.bell.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&attention.bell), FUTEX_WAKE, INT_MAX, nullptr,
          nullptr, 0);
}

void Waiter::WaitForBell(uint32_t heard, Deadline::Clock::duration timeout) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(timeout).count();
  timespec relative{};
  relative.tv_sec = static_cast<time_t>(ns / 1'000'000'000);
  relative.tv_nsec = static_cast<long>(ns % 1'000'000'000);
  // Returns early for many reasons, all harmless: the caller looks again.
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&attention_.bell), FUTEX_WAIT, heard, &relative,
          nullptr, 0);
}

void Waiter::Abort(const Status& cause) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (aborted()) return;
    cause_ = Aborted(Message(cause));
    aborted_.store(true, std::memory_order_seq_cst);
  }
  // The bell moves after the flag: a waiter that missed the flag does not fall asleep any more.
  Ring(attention_);
}

Status Waiter::cause() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return cause_;
}

}  // namespace lockstep::collective::shm
