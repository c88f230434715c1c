#include "services/worker/reporter.h"

#include <string>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/control/activity_codec.h"
#include "runtime/control/message_codec.h"
#include "schemas/membership.capnp.h"
#include "services/worker/stack_sampler.h"

namespace lockstep::worker {
namespace {

// How long the executing thread may take to show its stack.
constexpr std::chrono::milliseconds kPatience{200};

}  // namespace

Reporter::Reporter(Identity identity, const control::ActivityPage& activity,
                   pthread_t executing_thread, std::function<void(control::Frame)> send)
    : identity_(identity),
      activity_(activity),
      executing_thread_(executing_thread),
      send_(std::move(send)) {
  // If it fails, reports say so.
  (void)PrepareStackSampling();
  thread_ = std::thread([this] { Run(); });
}

Reporter::~Reporter() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wanted_.notify_one();
  }
  thread_.join();
}

void Reporter::Answer(uint64_t probe) {
  // Whoever asks more often than he can be answered waits for the latest answers.
  constexpr size_t kMostAtOnce = 64;
  std::lock_guard lock(mutex_);
  if (probes_.size() == kMostAtOnce) probes_.erase(probes_.begin());
  probes_.push_back(probe);
  wanted_.notify_one();
}

void Reporter::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wanted_.wait(lock, [this] { return stopping_ || !probes_.empty(); });
    if (stopping_) return;
    const std::vector<uint64_t> probes = std::exchange(probes_, {});
    lock.unlock();
    const WorkerActivity activity = activity_.Now();
    StatusOr<std::vector<std::string>> stack = std::vector<std::string>();
    if (activity.kind != WorkerActivity::Kind::kNone) {
      stack = SampleStack(executing_thread_, kPatience);
    }
    for (const uint64_t probe : probes) {
      send_(control::EncodeMessage<wire::LivenessMessage>(
          [&](wire::LivenessMessage::Builder message) {
            auto report = message.initReport();
            report.setProbe(probe);
            report.setRank(identity_.rank);
            report.setController(identity_.controller.value);
            report.setWatch(identity_.watch);
            control::WriteActivity(activity, report.initActivity());
            if (!stack.ok()) return report.setNoStack(Message(stack.status()));
            auto frames = report.initStack(static_cast<unsigned>(stack->size()));
            for (unsigned i = 0; i < frames.size(); ++i) frames.set(i, (*stack)[i]);
          }));
    }
    lock.lock();
  }
}

}  // namespace lockstep::worker
