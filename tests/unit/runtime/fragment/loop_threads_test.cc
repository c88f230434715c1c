// Loops that are divided among threads: each iteration once, and the first failure by place.
#include "runtime/fragment/loop_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <vector>

namespace lockstep::fragment {
namespace {

constexpr int kThreads = 4;

// A loop whose iterations count how often they are computed.
struct Counted {
  std::vector<std::atomic<int>> times;
  std::atomic<int> ranges = 0;
  std::atomic<int> with_parallel = 0;
  std::atomic<int> off_grain = 0;
  int64_t grain = 1;
  std::set<int64_t> failing = {};  // iterations

  explicit Counted(size_t count) : times(count) {}

  static int32_t Body(LockstepFragmentContext* context, const void* frame, int64_t begin,
                      int64_t end) {
    auto& self = *static_cast<Counted*>(const_cast<void*>(frame));
    ++self.ranges;
    if (context->parallel != nullptr) ++self.with_parallel;
    if (begin % self.grain != 0) ++self.off_grain;
    for (int64_t i = begin; i < end; ++i) {
      ++self.times[static_cast<size_t>(i)];
      if (self.failing.count(i) == 0) continue;
      context->error = {"arith.divsi", static_cast<uint32_t>(i), 7};
      return LOCKSTEP_FRAGMENT_DIVIDED_BY_ZERO;
    }
    return LOCKSTEP_FRAGMENT_OK;
  }
};

int32_t RunLoop(LoopThreads& threads, Counted& loop, LockstepFragmentContext& context) {
  threads.ServeLoopsOf(context);
  return context.parallel(&context, &Counted::Body, &loop, static_cast<int64_t>(loop.times.size()),
                          loop.grain);
}

TEST(LoopThreadsTest, EachIterationIsComputedOnceInRangesOfWholeGrains) {
  LoopThreads threads(kThreads);
  for (const size_t count : {0, 1, 6, 7, 8, 100, 1001}) {
    Counted loop(count);
    loop.grain = 7;
    LockstepFragmentContext context{};
    EXPECT_EQ(RunLoop(threads, loop, context), LOCKSTEP_FRAGMENT_OK);
    for (const auto& times : loop.times) EXPECT_EQ(times, 1);
    EXPECT_EQ(loop.off_grain, 0);
    if (count <= 7) {
      EXPECT_EQ(loop.ranges, 1) << count;
    }
    if (count > 100) {
      EXPECT_GT(loop.ranges, kThreads);
      EXPECT_EQ(loop.with_parallel, 0) << "a body must not divide its loops again";
    }
  }
}

TEST(LoopThreadsTest, TheFirstFailureByPlaceIsTheLoops) {
  LoopThreads threads(kThreads);
  for (int i = 0; i < 100; ++i) {
    Counted loop(1000);
    loop.failing = {431, 432, 900, 999};
    LockstepFragmentContext context{};
    EXPECT_EQ(RunLoop(threads, loop, context), LOCKSTEP_FRAGMENT_DIVIDED_BY_ZERO);
    EXPECT_EQ(context.error.line, 431u);
    EXPECT_STREQ(context.error.operation, "arith.divsi");
  }
}

TEST(LoopThreadsTest, MemoryIsAskedForByOneThreadAtATime) {
  struct Memory {
    int inside = 0;
    int together = 0;
    int live = 0;
  } memory;
  LockstepFragmentContext context{};
  context.caller = &memory;
  context.allocate = [](LockstepFragmentContext* own, uint64_t) -> void* {
    auto& all = *static_cast<Memory*>(own->caller);
    if (++all.inside > 1) ++all.together;
    ++all.live;
    --all.inside;
    return &all;
  };
  context.release = [](LockstepFragmentContext* own, void*) {
    --static_cast<Memory*>(own->caller)->live;
  };
  LoopThreads threads(kThreads);
  threads.ServeLoopsOf(context);
  const LockstepFragmentBody body = [](LockstepFragmentContext* own, const void*, int64_t begin,
                                       int64_t end) -> int32_t {
    for (int64_t i = begin; i < end; ++i) own->release(own, own->allocate(own, 8));
    return LOCKSTEP_FRAGMENT_OK;
  };
  EXPECT_EQ(context.parallel(&context, body, nullptr, 10000, 1), LOCKSTEP_FRAGMENT_OK);
  EXPECT_EQ(memory.together, 0);
  EXPECT_EQ(memory.live, 0);
}

TEST(LoopThreadsTest, OneThreadNeedsNone) {
  LoopThreads threads(1);
  LockstepFragmentContext context{};
  threads.ServeLoopsOf(context);
  EXPECT_EQ(context.parallel, nullptr);
}

}  // namespace
}  // namespace lockstep::fragment
