#include "services/worker/gpu/gpu_watch.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/base/log.h"

namespace lockstep::worker {
namespace {

constexpr std::chrono::seconds kInterval{1};
constexpr std::chrono::seconds kPatience{2};

std::atomic<bool> any_left_behind{false};

}  // namespace

struct GpuWatch::State {
  std::unique_ptr<collective::DeviceMonitor> monitor;  // the thread's
  std::mutex mutex;                                    // guards what follows
  std::condition_variable changed;
  collective::DeviceReport last;
  bool stops = false;
  bool ended = false;
};

GpuWatch::GpuWatch(std::unique_ptr<collective::DeviceMonitor> monitor)
    : state_(std::make_shared<State>()) {
  state_->monitor = std::move(monitor);
  std::thread([state = state_] { Run(state); }).detach();
}

GpuWatch::~GpuWatch() {
  std::unique_lock lock(state_->mutex);
  state_->stops = true;
  state_->changed.notify_all();
  if (!state_->changed.wait_for(lock, kPatience, [this] { return state_->ended; })) {
    any_left_behind = true;
    log::Warn("the GPU does not answer any more: the thread that watches it is left behind");
  }
}

bool GpuWatch::AnyLeftBehind() { return any_left_behind; }

collective::DeviceReport GpuWatch::Last() const {
  std::lock_guard lock(state_->mutex);
  return state_->last;
}

void GpuWatch::Run(const std::shared_ptr<State>& state) {
  collective::DeviceReport report;
  while (true) {
    state->monitor->Read(&report);
    std::unique_lock lock(state->mutex);
    state->last = report;
    state->changed.notify_all();
    if (state->changed.wait_for(lock, kInterval, [&] { return state->stops; })) break;
  }
  state->monitor.reset();
  std::lock_guard lock(state->mutex);
  state->ended = true;
  state->changed.notify_all();
}

}  // namespace lockstep::worker
