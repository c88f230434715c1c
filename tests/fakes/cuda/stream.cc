#include "tests/fakes/cuda/stream.h"

#include <utility>

namespace lockstep::fake_cuda {

uint64_t Event::Record() {
  std::lock_guard lock(mutex_);
  return ++recorded_;
}

void Event::Happen(uint64_t recording) {
  std::lock_guard lock(mutex_);
  if (recording > happened_) happened_ = recording;
  when_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}

void Event::Await(uint64_t recording) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return happened_ >= recording; });
}

uint64_t Event::recorded() const {
  std::lock_guard lock(mutex_);
  return recorded_;
}

bool Event::IsDone() const {
  std::lock_guard lock(mutex_);
  return happened_ >= recorded_;
}

std::chrono::steady_clock::time_point Event::when() const {
  std::lock_guard lock(mutex_);
  return when_;
}

Stream::Stream() : thread_([this] { Run(); }) {}

Stream::~Stream() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Stream::Add(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  changed_.notify_all();
}

bool Stream::IsIdle() {
  std::lock_guard lock(mutex_);
  return work_.empty() && !is_busy_;
}

void Stream::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !work_.empty(); });
    if (work_.empty()) return;
    std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    is_busy_ = true;
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    is_busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace lockstep::fake_cuda
