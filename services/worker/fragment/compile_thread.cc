#include "services/worker/fragment/compile_thread.h"

#include <utility>

namespace lockstep::worker {

CompileThread::~CompileThread() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    give_up_.Signal();
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void CompileThread::Add(CompileJob job) {
  std::lock_guard lock(mutex_);
  if (const auto waiting = waiting_.find(job.session); waiting != waiting_.end()) {
    size_t bytes = job.work.fragment.source().size();
    for (const CompileJob& other : waiting->second) bytes += other.work.fragment.source().size();
    if (waiting->second.size() >= kMostWaiting || bytes > kMostWaitingBytes) {
      return Finish(job, ResourceExhausted(job.work.fragment.name(),
                                           " is not compiled: ", waiting->second.size(),
                                           " fragments of its session ", "wait for the compiler"));
    }
  }
  waiting_[job.session].push_back(std::move(job));
  changed_.notify_one();
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
}

void CompileThread::GiveUp(SessionId session) {
  std::lock_guard lock(mutex_);
  if (running_ == session && session != SessionId()) give_up_.Signal();
  const auto waiting = waiting_.find(session);
  if (waiting == waiting_.end()) return;
  const std::deque<CompileJob> jobs = std::move(waiting->second);
  waiting_.erase(waiting);
  for (const CompileJob& job : jobs) {
    Finish(job, Aborted(job.work.fragment.name(), " is not compiled: its session goes on without"));
  }
}

std::vector<CompiledJob> CompileThread::TakeDone() {
  std::lock_guard lock(mutex_);
  any_done_.store(false, std::memory_order_relaxed);
  done_.Clear();
  return std::exchange(finished_, {});
}

void CompileThread::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    const CompileJob job = TakeNext();
    running_ = job.session;
    lock.unlock();
    StatusOr<std::shared_ptr<const LoadedObject>> object = cache_.Get(job.work, give_up_.fd());
    lock.lock();
    running_ = SessionId();
    if (!stopping_) give_up_.Clear();
    Finish(job, std::move(object), cache_.last_load());
  }
}

CompileJob CompileThread::TakeNext() {
  auto turn = waiting_.upper_bound(had_turn_);
  if (turn == waiting_.end()) turn = waiting_.begin();
  had_turn_ = turn->first;
  CompileJob job = std::move(turn->second.front());
  turn->second.pop_front();
  if (turn->second.empty()) waiting_.erase(turn);
  return job;
}

void CompileThread::Finish(const CompileJob& job,
                           StatusOr<std::shared_ptr<const LoadedObject>> object,
                           const fragment::Load& load) {
  finished_.push_back(
      {job.session, job.generation, job.client, job.request, job.key, std::move(object), load});
  any_done_.store(true, std::memory_order_relaxed);
  done_.Signal();
}

}  // namespace lockstep::worker
