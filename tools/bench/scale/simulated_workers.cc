#include "tools/bench/scale/simulated_workers.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::bench {
namespace {

using Clock = SimulatedWorker::Clock;

// A worker has two, and two more in a tree of relays; a context of ZeroMQ's has room for 1,023.
constexpr size_t kSocketsPerContext = 1000;
constexpr size_t kSocketsOfEach = 4;
constexpr uint64_t kWakeUp = ~uint64_t{0};
constexpr std::chrono::milliseconds kLongestSleep{100};

}  // namespace

SimulatedWorkers::SimulatedWorkers(std::string cluster, std::string endpoint,
                                   std::string relay_directory)
    : cluster_(std::move(cluster)),
      endpoint_(std::move(endpoint)),
      relay_directory_(std::move(relay_directory)),
      epoll_fd_(epoll_create1(EPOLL_CLOEXEC)) {}

StatusOr<std::unique_ptr<SimulatedWorkers>> SimulatedWorkers::Start(
    const std::string& cluster, const std::string& endpoint, absl::Span<const Rank> ranks,
    const std::string& relay_directory) {
  std::unique_ptr<SimulatedWorkers> workers(
      new SimulatedWorkers(cluster, endpoint, relay_directory));
  if (workers->epoll_fd_ < 0) return ResourceExhausted("no descriptor is left for epoll");
  epoll_event event{EPOLLIN, {.u64 = kWakeUp}};
  epoll_ctl(workers->epoll_fd_, EPOLL_CTL_ADD, workers->wake_up_.fd(), &event);
  for (const Rank rank : ranks) {
    LOCKSTEP_RETURN_IF_ERROR(workers->Add(rank));
    // Not before the next is made: that would take a while, and the order is to hold.
    workers->Go(rank, Clock::now());
  }
  workers->thread_ = std::thread([self = workers.get()] { self->Run(); });
  return workers;
}

SimulatedWorkers::~SimulatedWorkers() {
  if (thread_.joinable()) {
    Post([this] { is_stopping_ = true; });
    thread_.join();
  }
  slots_.clear();
  replaced_.clear();
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

Status SimulatedWorkers::Add(Rank rank) {
  if (contexts_.empty() || sockets_ + kSocketsOfEach > kSocketsPerContext) {
    contexts_.push_back(control::ZmqContext::Create());
    sockets_ = 0;
  }
  sockets_ += kSocketsOfEach;
  SimulatedWorker::Options options{cluster_, endpoint_, rank};
  if (!relay_directory_.empty()) {
    options.relay_endpoint = "ipc://" + relay_directory_ + "/r" + std::to_string(++made_);
  }
  Slot slot;
  LOCKSTEP_ASSIGN_OR_RETURN(slot.worker, SimulatedWorker::Start(contexts_.back(), options));
  Watch(rank, *slot.worker, true);
  slots_[rank] = std::move(slot);
  return OkStatus();
}

void SimulatedWorkers::Watch(Rank rank, SimulatedWorker& worker, bool watch) {
  for (control::Channel* channel : worker.channels()) {
    epoll_event event{EPOLLIN, {.u64 = static_cast<uint64_t>(rank)}};
    // One that is there already stays.
    epoll_ctl(epoll_fd_, watch ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, channel->wait_fd(), &event);
  }
}

void SimulatedWorkers::Go(Rank rank, Clock::time_point now) {
  Slot& slot = slots_[rank];
  if (slot.is_silent) return;
  if (const Status status = slot.worker->Go(now); !status.ok()) {
    if (status_.ok()) status_ = status;
    slot.is_silent = true;
    return;
  }
  if (slot.watched == slot.worker->changes()) return;
  slot.watched = slot.worker->changes();
  Watch(rank, *slot.worker, true);
}

void SimulatedWorkers::Run() {
  std::array<epoll_event, 256> events;
  Clock::time_point next{};
  while (!is_stopping_) {
    const auto now = Clock::now();
    if (now >= next) {
      next = now + kLongestSleep;
      for (auto& [rank, slot] : slots_) {
        if (slot.is_silent) continue;
        if (now >= slot.worker->next()) Go(rank, now);
        next = std::min(next, slot.worker->next());
      }
    }
    const auto sleep = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
    const int count = epoll_wait(epoll_fd_, events.data(), events.size(),
                                 static_cast<int>(std::max<int64_t>(0, sleep.count())));
    for (int i = 0; i < count; ++i) {
      const uint64_t whose = events[static_cast<size_t>(i)].data.u64;
      if (whose == kWakeUp) continue;
      Go(static_cast<Rank>(whose), now);
      next = std::min(next, slots_[static_cast<Rank>(whose)].worker->next());
    }
    std::deque<std::function<void()>> tasks;
    {
      std::lock_guard lock(mutex_);
      wake_up_.Clear();
      tasks.swap(tasks_);
    }
    for (const auto& task : tasks) task();
  }
}

void SimulatedWorkers::Post(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  wake_up_.Signal();
}

void SimulatedWorkers::PostAndWait(const std::function<void()>& task) {
  bool is_done = false;
  Post([&] {
    task();
    std::lock_guard lock(mutex_);
    is_done = true;
    done_.notify_all();
  });
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return is_done; });
}

void SimulatedWorkers::Silence(Rank rank) {
  PostAndWait([&] {
    Slot& slot = slots_[rank];
    slot.is_silent = true;
    // What comes is not taken, and must not wake the thread again and again.
    Watch(rank, *slot.worker, false);
  });
}

void SimulatedWorkers::Replace(Rank rank) {
  PostAndWait([&] {
    // It is kept, as a stopped process is: its connections stay.
    replaced_.push_back(std::move(slots_[rank].worker));
    slots_.erase(rank);
    if (const Status status = Add(rank); !status.ok()) {
      status_ = status;
      return;
    }
    Go(rank, Clock::now());
  });
}

Status SimulatedWorkers::Check() {
  Status status;
  PostAndWait([&] { status = status_; });
  return status;
}

int SimulatedWorkers::CountReady() {
  int ready = 0;
  PostAndWait([&] {
    for (const auto& [rank, slot] : slots_) {
      if (!slot.is_silent && slot.worker->is_ready()) ++ready;
    }
  });
  return ready;
}

uint64_t SimulatedWorkers::CountCalls() {
  uint64_t calls = 0;
  PostAndWait([&] {
    for (const auto& [rank, slot] : slots_) calls += slot.worker->calls();
  });
  return calls;
}

}  // namespace lockstep::bench
