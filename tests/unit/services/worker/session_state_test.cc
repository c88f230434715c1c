#include "services/worker/session_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;
using collective::Counts;
using collective::ReduceOp;

constexpr auto kLong = 20s;

// Counts what the session does with its communicators; operations are not what is tested here.
class FakeCommunicator : public collective::Communicator {
 public:
  struct Log {
    std::vector<uint64_t> tags;
    std::atomic<int> live{0};
    std::atomic<int> aborts{0};
    std::atomic<bool> in_split{false};
    // If set, Split returns when this is, or it was cancelled.
    std::atomic<bool>* let_split = nullptr;
  };
  explicit FakeCommunicator(Log& log) : log_(log) { ++log_.live; }
  ~FakeCommunicator() override { --log_.live; }

  Rank rank() const override { return 0; }
  int size() const override { return 1; }
  absl::Span<const Rank> members() const override { return {}; }
  std::string_view backend() const override { return "fake"; }
  Status AllReduce(ConstBuffer, Buffer, ReduceOp, Deadline) override { return OkStatus(); }
  Status Reduce(ConstBuffer, Buffer, ReduceOp, Rank, Deadline) override { return OkStatus(); }
  Status Broadcast(ConstBuffer, Buffer, Rank, Deadline) override { return OkStatus(); }
  Status AllGather(ConstBuffer, Buffer, Counts, Deadline) override { return OkStatus(); }
  Status Gather(ConstBuffer, Buffer, Counts, Rank, Deadline) override { return OkStatus(); }
  Status ReduceScatter(ConstBuffer, Buffer, Counts, ReduceOp, Deadline) override {
    return OkStatus();
  }
  Status Scatter(ConstBuffer, Buffer, Counts, Rank, Deadline) override { return OkStatus(); }
  Status AllToAll(ConstBuffer, Counts, Buffer, Counts, Deadline) override { return OkStatus(); }
  Status Send(ConstBuffer, Rank, Deadline) override { return OkStatus(); }
  Status Recv(Buffer, Rank, Deadline) override { return OkStatus(); }
  Status SendRecv(ConstBuffer, Rank, Buffer, Rank, Deadline) override { return OkStatus(); }
  Status Barrier(Deadline) override { return OkStatus(); }
  void Abort(const Status&) override { ++log_.aborts; }

 protected:
  StatusOr<std::unique_ptr<Communicator>> DoSplit(absl::Span<const Rank>, uint64_t tag,
                                                  Deadline deadline,
                                                  const std::atomic<bool>* cancelled) override {
    log_.tags.push_back(tag);
    log_.in_split = true;
    while (log_.let_split != nullptr && !*log_.let_split) {
      if (cancelled != nullptr && *cancelled) return Aborted("cancelled");
      if (deadline.Expired()) return DeadlineExceeded("nobody came");
      std::this_thread::yield();
    }
    return std::make_unique<FakeCommunicator>(log_);
  }

 private:
  Log& log_;
};

control::RemoteError Error(StatusCode code, Rank rank) {
  control::RemoteError error;
  error.code = code;
  error.rank = rank;
  error.message = "why";
  return error;
}

class SessionStateTest : public testing::Test {
 protected:
  StatusOr<collective::Communicator*> Connect(const std::vector<Rank>& members) {
    return state_.CommunicatorAmong(members, world_, Deadline::After(kLong));
  }

  registers::RegisterTotals totals_;
  registers::RegisterFile registers_{&totals_};
  FakeCommunicator::Log log_;
  FakeCommunicator world_{log_};
  SessionState state_{SessionId(7), SessionOwner{}, &registers_};
};

TEST_F(SessionStateTest, FirstFailureIsKept) {
  EXPECT_FALSE(state_.has_failed());
  EXPECT_TRUE(state_.Fail(Error(StatusCode::kInternal, 2)));
  EXPECT_FALSE(state_.Fail(Error(StatusCode::kNotFound, 1)));
  EXPECT_TRUE(state_.has_failed());
  EXPECT_EQ(state_.failure().code, StatusCode::kInternal);
  EXPECT_EQ(state_.failure().rank, 2);
}

TEST_F(SessionStateTest, AbortAfterAFailureKeepsTheCause) {
  state_.Fail(Error(StatusCode::kInternal, 2));
  state_.Abort(Generation(0), Error(StatusCode::kUnavailable, 3));
  EXPECT_EQ(state_.failure().rank, 2);
}

TEST_F(SessionStateTest, FailureAfterAnAbortIsNoNews) {
  state_.Abort(Generation(0), Error(StatusCode::kUnavailable, 3));
  EXPECT_FALSE(state_.Fail(Error(StatusCode::kAborted, 0)));
  EXPECT_EQ(state_.failure().rank, 3);
}

TEST_F(SessionStateTest, ResetForgetsTheFailureAndTheCommunicators) {
  ASSERT_TRUE(Connect({0, 1}).ok());
  state_.Fail(Error(StatusCode::kInternal, 2));
  state_.Reset(Generation(1));
  EXPECT_FALSE(state_.has_failed());
  EXPECT_EQ(state_.generation(), Generation(1));
  EXPECT_EQ(log_.live, 1) << "only the world is left";
}

TEST_F(SessionStateTest, AbortOfAnOlderGenerationComesTooLate) {
  state_.Reset(Generation(2));
  state_.Abort(Generation(1), Error(StatusCode::kInternal, 2));
  EXPECT_FALSE(state_.has_failed());
}

// The abort travels on another socket than the reset, and may overtake it. Were it forgotten, this
// rank would go into collectives that its peers skip.
TEST_F(SessionStateTest, AbortOfALaterGenerationIsKeptUntilItsReset) {
  state_.Abort(Generation(1), Error(StatusCode::kInternal, 2));
  EXPECT_FALSE(state_.has_failed()) << "this generation is not meant";
  state_.Reset(Generation(1));
  EXPECT_TRUE(state_.has_failed());
  EXPECT_EQ(state_.failure().rank, 2);
  state_.Reset(Generation(2));
  EXPECT_FALSE(state_.has_failed());
}

TEST_F(SessionStateTest, CommunicatorsAreMadeOnceForEachListOfMembers) {
  const auto first = Connect({0, 1});
  const auto again = Connect({0, 1});
  const auto other = Connect({1, 0});
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ(*first, *again);
  EXPECT_NE(*first, *other);
  EXPECT_EQ(log_.tags.size(), 2u);
}

TEST_F(SessionStateTest, TagsDifferBetweenSessionsAndGenerations) {
  ASSERT_TRUE(Connect({0}).ok());
  state_.Reset(Generation(1));
  ASSERT_TRUE(Connect({0}).ok());
  SessionState other(SessionId(8), SessionOwner{}, &registers_);
  ASSERT_TRUE(other.CommunicatorAmong({0}, world_, Deadline::After(kLong)).ok());
  ASSERT_EQ(log_.tags.size(), 3u);
  EXPECT_NE(log_.tags[0], log_.tags[1]);
  EXPECT_NE(log_.tags[0], log_.tags[2]);
  EXPECT_NE(log_.tags[1], log_.tags[2]);
}

TEST_F(SessionStateTest, AbortReachesAllCommunicatorsOfTheSession) {
  ASSERT_TRUE(Connect({0}).ok());
  ASSERT_TRUE(Connect({0, 1}).ok());
  state_.Abort(Generation(0), Error(StatusCode::kInternal, 2));
  EXPECT_EQ(log_.aborts, 2);
}

TEST_F(SessionStateTest, CommunicatorMadeWhileAnAbortComesIsAbortedOrCancelled) {
  std::atomic<bool> let_split{false};
  log_.let_split = &let_split;
  StatusOr<collective::Communicator*> made = nullptr;
  std::thread executor([&] { made = Connect({0, 1}); });
  while (!log_.in_split) std::this_thread::yield();
  state_.Abort(Generation(0), Error(StatusCode::kInternal, 2));
  executor.join();
  EXPECT_EQ(made.status().code(), StatusCode::kAborted) << "its peers do not come any more";
}

TEST_F(SessionStateTest, AbortsRaceWithResets) {
  constexpr uint32_t kGenerations = 2000;
  std::atomic<bool> done{false};
  std::thread aborter([&] {
    for (uint32_t i = 0; !done; i = (i + 1) % kGenerations) {
      state_.Abort(Generation(i), Error(StatusCode::kInternal, 2));
    }
  });
  for (uint32_t generation = 1; generation < kGenerations; ++generation) {
    state_.Reset(Generation(generation));
    if (!state_.has_failed()) (void)Connect({0});
    if (state_.has_failed()) {
      EXPECT_FALSE(state_.failure().ok());
    }
  }
  done = true;
  aborter.join();
}

}  // namespace
}  // namespace lockstep::worker
