#include "services/worker/fragment/compile_thread.h"

#include <gmock/gmock.h>
#include <poll.h>

#include <string>
#include <vector>

#include "services/worker/fragment/session_fragments.h"
#include "tests/unit/runtime/fragment/fake_compiler.h"

namespace lockstep::worker {
namespace {

using fragment::FakeCompiler;
using testing::HasSubstr;

ObjectCacheOptions CacheOptions(const FakeCompiler& fake) {
  ObjectCacheOptions options;
  options.compiler = fake.Options();
  return options;
}

class CompileThreadTest : public testing::Test {
 protected:
  static CompileJob Job(uint32_t session, uint64_t request, const std::string& source) {
    fragment::CompileWork work = FakeCompiler::Work(source);
    const fragment::ObjectKey key = work.fragment.key();
    return {SessionId(session), Generation(1), 1, RequestId(request), key, std::move(work)};
  }
  // The next `count` that are done.
  std::vector<CompiledJob> Take(size_t count) {
    std::vector<CompiledJob> all;
    while (all.size() < count) {
      pollfd input{thread_.fd(), POLLIN, 0};
      EXPECT_EQ(poll(&input, 1, 60'000), 1);
      for (CompiledJob& done : thread_.TakeDone()) all.push_back(std::move(done));
    }
    return all;
  }

  const FakeCompiler fake_;
  CompileThread thread_{CacheOptions(fake_)};
};

TEST_F(CompileThreadTest, WhatIsDoneIsTakenByWhoeverIsWokenByIt) {
  EXPECT_FALSE(thread_.IsAnyDone());
  thread_.Add(Job(1, 10, "sum"));
  const std::vector<CompiledJob> done = Take(1);
  EXPECT_EQ(done[0].session, SessionId(1));
  EXPECT_EQ(done[0].request, RequestId(10));
  ASSERT_TRUE(done[0].object.ok()) << done[0].object.status();
  EXPECT_EQ((*done[0].object)->signature().function, "sum");
  EXPECT_FALSE(thread_.IsAnyDone());
  EXPECT_EQ(thread_.use().compiles, 1u);
}

// The first hangs until it is given up, and so does one that has not begun.
TEST_F(CompileThreadTest, ASessionThatGoesOnGivesItsJobsUpAndNoOthers) {
  thread_.Add(Job(1, 10, "hang"));
  thread_.Add(Job(1, 11, "sum"));
  thread_.Add(Job(2, 20, "sum"));
  thread_.GiveUp(SessionId(1));
  std::vector<std::string> ends;
  for (const CompiledJob& done : Take(3)) {
    const bool is_first = done.session == SessionId(1);
    EXPECT_EQ(done.object.status().code(), is_first ? StatusCode::kAborted : StatusCode::kOk)
        << done.object.status();
  }
}

TEST_F(CompileThreadTest, SessionsTakeTurns) {
  // Nobody knows whether this is begun when the others come; then it is given up.
  thread_.Add(Job(1, 10, "hang"));
  thread_.Add(Job(2, 20, "sum"));
  thread_.Add(Job(2, 21, "sum"));
  thread_.Add(Job(3, 30, "sum"));
  thread_.GiveUp(SessionId(1));
  std::vector<uint64_t> order;
  for (const CompiledJob& done : Take(4)) {
    if (done.session != SessionId(1)) order.push_back(done.request.value);
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{20, 30, 21}));
}

TEST_F(CompileThreadTest, WhatWaitsIsBounded) {
  for (uint64_t i = 0; i < CompileThread::kMostWaiting + 3; ++i) thread_.Add(Job(1, i, "hang"));
  // Of the last three one finds room if the thread has begun with the first by then.
  const std::vector<CompiledJob> refused = Take(2);
  for (const CompiledJob& done : refused) {
    EXPECT_GE(done.request.value, CompileThread::kMostWaiting);
    EXPECT_EQ(done.object.status().code(), StatusCode::kResourceExhausted) << done.object.status();
  }
  // Another session is not concerned.
  thread_.Add(Job(2, 7, "sum"));
  thread_.GiveUp(SessionId(1));
  bool is_other_done = false;
  while (!is_other_done) {
    for (const CompiledJob& done : Take(1)) {
      is_other_done = is_other_done || (done.session == SessionId(2) && done.object.ok());
    }
  }
}

TEST(SessionFragmentsTest, OnlyWhatWasGrantedIsFound) {
  const FakeCompiler fake;
  ObjectCache cache(CacheOptions(fake));
  const fragment::CompileWork work = FakeCompiler::Work("sum");
  const auto object = cache.Get(work);
  ASSERT_TRUE(object.ok()) << object.status();
  const fragment::ObjectKey key = work.fragment.key();

  SessionFragments fragments;
  EXPECT_THAT(Message(fragments.Find(key).status()), HasSubstr("was not compiled in this session"));
  fragments.Finish(key, *object);
  EXPECT_FALSE(fragments.Find(key).ok()) << "nobody has granted it";
  ASSERT_TRUE(fragments.Grant(key, "f.mlir").ok());
  EXPECT_THAT(Message(fragments.Find(key).status()), HasSubstr("f.mlir is still being compiled"));
  fragments.Finish(key, nullptr);
  EXPECT_THAT(Message(fragments.Find(key).status()), HasSubstr("was not compiled"));
  ASSERT_TRUE(fragments.Grant(key, "f.mlir").ok());
  fragments.Finish(key, *object);
  EXPECT_EQ(fragments.bytes(), (*object)->size_bytes());
  // Compiled once more: what is there stays, also if that fails.
  ASSERT_TRUE(fragments.Grant(key, "g.mlir").ok());
  fragments.Finish(key, nullptr);
  ASSERT_TRUE(fragments.Find(key).ok());
  EXPECT_EQ((*fragments.Find(key))->object, *object);
  fragments.Clear();
  EXPECT_FALSE(fragments.Find(key).ok());
  EXPECT_EQ(fragments.bytes(), 0u);
}

// Two threads of a client may compile the same, of which one runs into a limit.
TEST(SessionFragmentsTest, OneOfTwoGrantsIsEnough) {
  const FakeCompiler fake;
  ObjectCache cache(CacheOptions(fake));
  const fragment::CompileWork work = FakeCompiler::Work("sum");
  const auto object = cache.Get(work);
  ASSERT_TRUE(object.ok()) << object.status();
  const fragment::ObjectKey key = work.fragment.key();

  SessionFragments fragments;
  ASSERT_TRUE(fragments.Grant(key, "f.mlir").ok());
  ASSERT_TRUE(fragments.Grant(key, "f.mlir").ok());
  fragments.Finish(key, nullptr);
  EXPECT_THAT(Message(fragments.Find(key).status()), HasSubstr("f.mlir is still being compiled"));
  fragments.Finish(key, *object);
  EXPECT_TRUE(fragments.Find(key).ok());
}

}  // namespace
}  // namespace lockstep::worker
