// Sessions of a cluster that lets little be under way, and takes small batches only: what happens
// at the limits, where others never come.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "tests/integration/session_fixture.h"
#include "tests/support/patience.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kLimit = size_t{64} << 10;
constexpr int64_t kSessionBytes = int64_t{64} << 20;

class SmallLimitsTest : public OwnClusterFixture {
 protected:
  ClusterOptions OwnOptions() override {
    ClusterOptions options;
    options.controller.flow_window_bytes = kLimit;
    options.controller.max_batch_bytes = kLimit;
    options.worker.max_session_bytes = kSessionBytes;
    options.worker.max_modules = 1;
    options.worker.module_path = {ModuleDirectory()};
    return options;
  }

  // A session that gives up waiting soon.
  Session Impatient(std::chrono::milliseconds timeout) {
    SessionOptions options = Options();
    options.timeout = timeout;
    return Open(*cluster_, options);
  }
  // What fills a session's window. Every rank holds both functions once this is made.
  struct Load {
    explicit Load(Session& session)
        : sleep(Function(session, "lockstep.sleep")), nop(Function(session, "lockstep.nop")) {
      EXPECT_OK(session.SyncAll());
    }
    DRef sleep, nop;
  };
  // Rank 2 is busy for so long; meanwhile the session sends until it may not send any more. Returns
  // what the call said that found no room.
  static lockstep::Status FillWindow(Session& session, const Load& load, double busy_seconds) {
    const Bytes some{std::string(1000, 'x')};
    (void)Unwrap(session.Call(load.sleep, busy_seconds, 2));
    while (true) {
      const lockstep::Status status = session.Call(load.nop, some).status();
      if (!status.ok()) return status;
    }
  }
  static lockstep::Status FillWindow(Session& session, double busy_seconds) {
    return FillWindow(session, Load(session), busy_seconds);
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, SmallLimitsTest,
                         ::testing::Values(ClusterKind::kTcpThreads, ClusterKind::kTcpProcesses),
                         NameOf);

TEST_P(SmallLimitsTest, WhatFoundNoRoomIsNotExecutedLater) {
  Session session = Impatient(300ms);
  const DRef a = Unwrap(session.Empty({1}, DType::kUInt8));
  const DRef b = Unwrap(session.Empty({1}, DType::kUInt8));
  EXPECT_OK(session.DebugSet(a, 0, Value(int64_t{1})));
  EXPECT_OK(session.DebugSet(b, 0, Value(int64_t{2})));

  const lockstep::Status full = FillWindow(session, 2);
  EXPECT_EQ(full.code(), StatusCode::kDeadlineExceeded) << full;
  EXPECT_THAT(Message(full), HasSubstr("the workers have not taken"));
  EXPECT_EQ(session.DebugGet(a, 0).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(session.DebugSet(a, 0, Value(int64_t{3})).code(), StatusCode::kDeadlineExceeded);

  const Deadline deadline = Deadline::After(support::kLong);
  while (!session.SyncAll().ok()) ASSERT_FALSE(deadline.Expired());
  EXPECT_EQ(ToString(Unwrap(session.DebugGet(b, 0))), "2") << "and not the answer about a";
  EXPECT_EQ(ToString(Unwrap(session.DebugGet(a, 0))), "1") << "the store was refused";
}

TEST_P(SmallLimitsTest, ResetMakesRoom) {
  // Made before the first reset: one that came between a function and its call would leave the call
  // without a value, and a reset after that failure waits for the sleep, which is issued before it.
  const Load load(*session_);
  std::atomic<bool> over{false};
  lockstep::Status full;
  std::thread caller([&] {
    full = FillWindow(*session_, load, 3600);
    over = true;
  });
  // Whether the window is full by now or not: no wait of another thread holds this one up.
  const Deadline deadline = Deadline::After(support::kLong);
  while (!over) {
    EXPECT_OK(session_->Reset());
    ASSERT_FALSE(deadline.Expired());
  }
  caller.join();
  EXPECT_THAT(Message(full), HasSubstr("reset"));
  EXPECT_OK(session_->Reset());
  EXPECT_OK(session_->SyncAll());
}

TEST_P(SmallLimitsTest, CloseDoesNotWaitForRoom) {
  Session session = Impatient(500ms);
  const lockstep::Status full = FillWindow(session, 3600);
  EXPECT_EQ(full.code(), StatusCode::kDeadlineExceeded) << full;
  const auto begin = Deadline::Clock::now();
  EXPECT_FALSE(session.Close().ok()) << "rank 2 still works";
  EXPECT_LT(Deadline::Clock::now() - begin, support::kLong / 2);
}

TEST_P(SmallLimitsTest, OtherThreadsAreNotHeldUpByOneThatWaitsForRoom) {
  Session session = Impatient(1500ms);
  std::thread caller([&] { (void)FillWindow(session, 5); });
  for (int i = 0; i < 3; ++i) {
    const auto begin = Deadline::Clock::now();
    (void)session.Sync(0);
    EXPECT_LT(Deadline::Clock::now() - begin, support::kLong / 2);
  }
  caller.join();
}

TEST_P(SmallLimitsTest, BytesOfASessionAreLimitedAndOthersHaveTheirOwn) {
  Session other = Open(*cluster_);
  const DRef first = Unwrap(session_->Empty({kSessionBytes / 2}, DType::kUInt8));
  EXPECT_OK(session_->SyncAll());
  (void)Unwrap(session_->Empty({kSessionBytes / 2 + 1}, DType::kUInt8));
  const lockstep::Status full = session_->SyncAll();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted) << full;
  EXPECT_THAT(Message(full), HasSubstr("max_session_bytes"));
  EXPECT_THAT(Message(full), ::testing::Not(HasSubstr("arena_bytes")));
  const DRef theirs = Unwrap(other.Empty({kSessionBytes}, DType::kUInt8));
  EXPECT_OK(other.SyncAll());
  EXPECT_OK(session_->Reset());
  const DRef second = Unwrap(session_->Empty({kSessionBytes / 2}, DType::kUInt8));
  EXPECT_OK(session_->SyncAll()) << "what did not fit was not kept";
}

TEST_P(SmallLimitsTest, ModulesOfASessionAreLimited) {
  const DRef module = Unwrap(session_->LoadModule("test_module.so"));
  const DRef again = Unwrap(session_->LoadModule("test_module.so"));
  EXPECT_OK(session_->SyncAll()) << "the same one counts once";
  (void)Unwrap(session_->LoadModule("slow_module.so"));
  const lockstep::Status full = session_->SyncAll();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted) << full;
  EXPECT_THAT(Message(full), HasSubstr("max_modules"));
}

TEST_P(SmallLimitsTest, ACommandLargerThanABatchIsRefused) {
  const DRef nop = Function("lockstep.nop");
  const auto refused = session_->Call(nop, Bytes{std::string(kLimit, 'x')});
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument) << refused.status();
  EXPECT_THAT(Message(refused.status()),
              AllOf(HasSubstr("max_batch_bytes"), HasSubstr(std::to_string(kLimit))));
  const auto list = session_->Call(nop, Value(Value::List(5000, Value(int64_t{1}))));
  EXPECT_EQ(list.status().code(), StatusCode::kInvalidArgument) << list.status();
  EXPECT_OK(session_->SyncAll());
}

TEST_P(SmallLimitsTest, CommandsThatFillABatchEachAllArrive) {
  const DRef identity = Function("lockstep.nop");
  std::vector<DRef> results;
  for (size_t size : {kLimit / 2, kLimit * 3 / 4, size_t{10}, kLimit - 1000, kLimit - 1000}) {
    results.push_back(Unwrap(session_->Call(identity, Bytes{std::string(size, 'x')})));
  }
  EXPECT_OK(session_->SyncAll());
  for (const DRef& result : results) (void)Get(result, 3);
}

TEST_P(SmallLimitsTest, MoreNamesThanFitIntoABatchAreFreed) {
  const auto names = [&] { return 3 * kLimit / sizeof(uint64_t); };
  std::vector<DRef> refs;
  const DRef rank = Function("lockstep.worker_rank");
  for (size_t i = 0; i < names(); ++i) refs.push_back(Unwrap(session_->Call(rank)));
  const Value last = Named(refs.back().id());
  EXPECT_OK(session_->SyncAll());
  refs.clear();
  for (int i = 0; i < 10; ++i) EXPECT_OK(session_->SyncAll());
  const auto stale = session_->Call(Function("lockstep.nop"), last);
  EXPECT_OK(stale.status());
  EXPECT_FALSE(session_->SyncAll().ok()) << "the register is free";
}

}  // namespace
}  // namespace lockstep::testing
