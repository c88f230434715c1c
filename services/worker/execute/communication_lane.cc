#include "services/worker/execute/communication_lane.h"

#include <utility>

namespace lockstep::worker {
namespace {

// A plan's steps are microseconds apart, and waking a thread takes some: it is looked for so often
// first. There is a core for it.
constexpr int kLooks = 2000;

template <typename T, typename IsSo>
void AwaitChange(const std::atomic<T>& value, IsSo is_so) {
  for (int i = 0; i < kLooks; ++i) {
    if (is_so(value.load(std::memory_order_acquire))) return;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  for (T seen = value.load(std::memory_order_acquire); !is_so(seen);
       seen = value.load(std::memory_order_acquire)) {
    value.wait(seen, std::memory_order_acquire);
  }
}

}  // namespace

CommunicationLane::~CommunicationLane() {
  state_.store(kEnds, std::memory_order_release);
  state_.notify_all();
  thread_.join();
}

void CommunicationLane::Begin(std::function<void()> work) {
  work_ = std::move(work);
  state_.store(kWorks, std::memory_order_release);
  state_.notify_all();
}

void CommunicationLane::Await() {
  AwaitChange(state_, [](uint32_t state) { return state == kIdle; });
}

void CommunicationLane::Run() {
  while (true) {
    AwaitChange(state_, [](uint32_t state) { return state != kIdle; });
    if (state_.load(std::memory_order_acquire) == kEnds) return;
    work_();
    state_.store(kIdle, std::memory_order_release);
    state_.notify_all();
  }
}

void LaneProgress::Finish(plan::Lane lane, int step) {
  // It never goes back: who has given up has put it at the end.
  int done = At(lane).load(std::memory_order_relaxed);
  while (done < step && !At(lane).compare_exchange_weak(done, step, std::memory_order_release,
                                                        std::memory_order_relaxed)) {
  }
  At(lane).notify_all();
}

bool LaneProgress::GiveUp() {
  const bool is_first = !is_given_up_.exchange(true, std::memory_order_acq_rel);
  for (const plan::Lane lane : {plan::Lane::kCompute, plan::Lane::kCommunication}) FinishAll(lane);
  return is_first;
}

bool LaneProgress::Await(plan::Lane lane, int step) const {
  AwaitChange(At(lane), [&](int done) { return done >= step; });
  return !is_given_up();
}

}  // namespace lockstep::worker
