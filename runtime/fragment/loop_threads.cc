#include "runtime/fragment/loop_threads.h"

#include <algorithm>
#include <limits>
#include <system_error>

#include "runtime/base/log.h"

namespace lockstep::fragment {
namespace {

// Ranges for each thread: one that began late, or has harder ones, then holds up nobody for long.
constexpr int64_t kRangesPerThread = 4;

}  // namespace

// A loop under way.
struct LoopThreads::Loop {
  LockstepFragmentContext& context;
  LockstepFragmentBody body;
  const void* frame;
  int64_t count;
  int64_t per_range;  // iterations

  std::atomic<int64_t> next = 0;  // the first iteration that nobody has taken

  std::mutex mutex = {};  // guards what follows, and the context's functions
  int64_t failed = std::numeric_limits<int64_t>::max();  // where the first range begins that has
  int32_t code = LOCKSTEP_FRAGMENT_OK;
  LockstepFragmentError error = {};

  // Computes ranges until none is left, or none that matters.
  void Compute();
  // Notes that the range at `begin` has ended with `ended`.
  void Fail(int64_t begin, int32_t ended, const LockstepFragmentError& place);

  // What a body gets for a context: memory from the loop's own, one thread at a time.
  struct BodyContext : LockstepFragmentContext {
    explicit BodyContext(Loop& divided) : LockstepFragmentContext(divided.context), loop(divided) {
      allocate = [](LockstepFragmentContext* context, uint64_t bytes) {
        Loop& loop = static_cast<BodyContext*>(context)->loop;
        const std::lock_guard lock(loop.mutex);
        return loop.context.allocate(&loop.context, bytes);
      };
      release = [](LockstepFragmentContext* context, void* memory) {
        Loop& loop = static_cast<BodyContext*>(context)->loop;
        const std::lock_guard lock(loop.mutex);
        loop.context.release(&loop.context, memory);
      };
      parallel = nullptr;
    }

    Loop& loop;
  };
};

void LoopThreads::Loop::Compute() {
  BodyContext own(*this);
  while (true) {
    const int64_t begin = next.fetch_add(per_range, std::memory_order_relaxed);
    if (begin >= count) return;
    const int64_t end = std::min(count, begin + per_range);
    const int32_t ended = body(&own, frame, begin, end);
    if (ended != LOCKSTEP_FRAGMENT_OK) Fail(begin, ended, own.error);
  }
}

void LoopThreads::Loop::Fail(int64_t begin, int32_t ended, const LockstepFragmentError& place) {
  // Ranges are taken in order, so all that come before this one are under way, or done.
  next.store(count, std::memory_order_relaxed);
  const std::lock_guard lock(mutex);
  if (begin >= failed) return;
  failed = begin;
  code = ended;
  error = place;
}

LoopThreads::LoopThreads(int threads) : threads_(std::max(threads, 1)) {}

LoopThreads::~LoopThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void LoopThreads::ServeLoopsOf(LockstepFragmentContext& context) {
  if (threads_ == 1) return;
  context.parallel = &Parallel;
  context.threads = this;
}

int32_t LoopThreads::Parallel(LockstepFragmentContext* context, LockstepFragmentBody body,
                              const void* frame, int64_t count, int64_t grain) {
  auto& self = *static_cast<LoopThreads*>(context->threads);
  const int64_t grains = count <= 0 ? 0 : (count - 1) / grain + 1;
  const std::unique_lock busy(self.busy_, std::try_to_lock);
  if (grains < 2 || !busy.owns_lock()) return body(context, frame, 0, count);
  const int64_t per_range = std::max<int64_t>(1, grains / (kRangesPerThread * self.threads_));
  Loop loop{*context, body, frame, count, per_range * grain};
  return self.Divide(loop);
}

int32_t LoopThreads::Divide(Loop& loop) {
  {
    const std::lock_guard lock(mutex_);
    if (!started_) StartThreads();
    loop_ = &loop;
    ++loops_;
  }
  changed_.notify_all();
  loop.Compute();
  {
    std::unique_lock lock(mutex_);
    loop_ = nullptr;
    done_.wait(lock, [this] { return helping_ == 0; });
  }
  if (loop.code != LOCKSTEP_FRAGMENT_OK) loop.context.error = loop.error;
  return loop.code;
}

void LoopThreads::StartThreads() {
  started_ = true;
  try {
    for (int i = 1; i < threads_; ++i) helpers_.emplace_back([this] { Help(); });
  } catch (const std::system_error& error) {
    log::Warn("loops of fragments have ", helpers_.size() + 1, " threads, not ", threads_, ": ",
              error.what());
  }
}

void LoopThreads::Help() {
  uint64_t helped = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || (loop_ != nullptr && loops_ != helped); });
    if (stopping_) return;
    helped = loops_;
    Loop& loop = *loop_;
    ++helping_;
    lock.unlock();
    loop.Compute();
    lock.lock();
    if (--helping_ == 0) done_.notify_one();
  }
}

}  // namespace lockstep::fragment
