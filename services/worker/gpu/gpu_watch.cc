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
  std::shared_ptr<cuda::StreamPair> streams;
  std::shared_ptr<cuda::DeviceAllocator> allocator;
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  GpuReport last;
  bool stops = false;
  bool ended = false;
};

GpuWatch::GpuWatch(std::shared_ptr<cuda::StreamPair> streams,
                   std::shared_ptr<cuda::DeviceAllocator> allocator)
    : state_(std::make_shared<State>()) {
  state_->streams = std::move(streams);
  state_->allocator = std::move(allocator);
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

GpuReport GpuWatch::Last() const {
  std::lock_guard lock(state_->mutex);
  return state_->last;
}

void GpuWatch::Run(const std::shared_ptr<State>& state) {
  cuda::Gpu& gpu = state->streams->gpu();
  const cuda::GpuFacts& facts = gpu.facts();
  const std::string name = "GPU " + std::to_string(facts.index) + " (" + facts.bus_id + ")";
  const Status bound = gpu.Bind();
  if (!bound.ok()) log::Warn(name, " is not watched: ", Message(bound));
  auto monitor = cuda::OpenMonitor(facts.bus_id);
  if (!monitor.ok()) log::Warn(name, " is not monitored: ", Message(monitor.status()));

  GpuReport report;
  report.is_monitored = monitor.ok();
  if (monitor.ok()) report.driver_version = (*monitor)->DriverVersion();
  while (true) {
    report.memory = state->allocator->Stats();
    if (const cuda::Region* const region = state->allocator->region()) {
      report.registered_bytes = region->size_bytes();
      report.registered_live_bytes = region->live_bytes();
    }
    // An error of the GPU is the executing thread's business.
    if (const auto waits = state->streams->Waits(); waits.ok()) report.waits = *waits;
    if (monitor.ok()) {
      report.health = (*monitor)->Read();
      for (const uint64_t xid : (*monitor)->TakeXids()) {
        ++report.xids[xid];
        log::Error(name, " reports XID ", xid,
                   "; what it means, and whether the GPU is to be replaced: "
                   "https://docs.nvidia.com/deploy/xid-errors/");
      }
    }
    std::unique_lock lock(state->mutex);
    state->last = report;
    state->changed.notify_all();
    if (state->changed.wait_for(lock, kInterval, [&] { return state->stops; })) break;
  }
  if (monitor.ok()) monitor->reset();
  state->streams.reset();
  state->allocator.reset();
  std::lock_guard lock(state->mutex);
  state->ended = true;
  state->changed.notify_all();
}

}  // namespace lockstep::worker
