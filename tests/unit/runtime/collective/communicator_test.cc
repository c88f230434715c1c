#include "runtime/collective/communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::collective {
namespace {

// Rank 1 of 3. Keeps what it is asked to do.
class RecordingCommunicator final : public Communicator {
 public:
  Rank rank() const override { return 1; }
  int size() const override { return 3; }
  absl::Span<const Rank> members() const override { return kMembers; }
  std::string_view backend() const override { return "recording"; }
  Status Usable() override { return failure; }
  bool RecvMayStillChange() const override { return false; }
  void ReportAs(std::string) override {}
  void Leave(const Status&) override {}
  void Abort(const Status&) override {}

  Status failure;
  std::vector<Operation> done;

 protected:
  Status DoRun(const Operation& operation, Deadline) override {
    done.push_back(operation);
    return OkStatus();
  }
  StatusOr<std::unique_ptr<Communicator>> DoSplit(absl::Span<const Rank>, uint64_t, Deadline,
                                                  const std::atomic<bool>*) override {
    return Unimplemented("not asked for here");
  }

 private:
  static constexpr Rank kMembers[] = {0, 1, 2};
};

class RunTest : public ::testing::Test {
 protected:
  // Refused with a message that has `part`, and nothing is done.
  void ExpectRefused(const Status& status, std::string_view part) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    EXPECT_NE(Message(status).find(part), std::string::npos) << status;
    EXPECT_TRUE(comm_.done.empty());
  }
  Kind OnlyKindDone() const {
    EXPECT_EQ(comm_.done.size(), 1u);
    return comm_.done.empty() ? Kind::kBarrier : comm_.done.front().kind;
  }

  const Deadline deadline_ = Deadline::After(std::chrono::seconds(20));
  const std::vector<int64_t> ones_ = {1, 1, 1};
  RecordingCommunicator comm_;
  float send_[3] = {};
  float recv_[3] = {};
  const ConstBuffer three_ = ViewOf(send_, 3);
  const ConstBuffer one_ = ViewOf(send_, 1);
  const Buffer to_three_ = ViewOf(recv_, 3);
  const Buffer to_one_ = ViewOf(recv_, 1);
};

TEST_F(RunTest, WhatIsRightIsDone) {
  const auto expect_done = [&](const Status& status, Kind kind) {
    EXPECT_EQ(status, OkStatus());
    EXPECT_EQ(OnlyKindDone(), kind);
    comm_.done.clear();
  };
  expect_done(comm_.Barrier(deadline_), Kind::kBarrier);
  expect_done(comm_.AllReduce(three_, to_three_, ReduceOp::kSum, deadline_), Kind::kAllReduce);
  expect_done(comm_.Reduce(three_, to_three_, ReduceOp::kSum, 1, deadline_), Kind::kReduce);
  expect_done(comm_.Broadcast(three_, to_three_, 1, deadline_), Kind::kBroadcast);
  expect_done(comm_.AllGather(one_, to_three_, ones_, deadline_), Kind::kAllGather);
  expect_done(comm_.Gather(one_, to_three_, ones_, 1, deadline_), Kind::kGather);
  expect_done(comm_.ReduceScatter(three_, to_one_, ones_, ReduceOp::kMax, deadline_),
              Kind::kReduceScatter);
  expect_done(comm_.Scatter(three_, to_one_, ones_, 1, deadline_), Kind::kScatter);
  expect_done(comm_.AllToAll(three_, ones_, to_three_, ones_, deadline_), Kind::kAllToAll);
  expect_done(comm_.Send(one_, 0, deadline_), Kind::kSend);
  expect_done(comm_.Recv(to_one_, 2, deadline_), Kind::kRecv);
  expect_done(comm_.SendRecv(one_, 0, to_one_, 2, deadline_), Kind::kSendRecv);
}

TEST_F(RunTest, InPlaceIsRightWhereTheOperationSaysSo) {
  EXPECT_EQ(comm_.AllReduce(to_three_, to_three_, ReduceOp::kSum, deadline_), OkStatus());
  EXPECT_EQ(comm_.AllGather(ViewOf(recv_ + 1, 1), to_three_, ones_, deadline_), OkStatus());
  EXPECT_EQ(comm_.ReduceScatter(three_, ViewOf(send_ + 1, 1), ones_, ReduceOp::kSum, deadline_),
            OkStatus());
  EXPECT_EQ(comm_.done.size(), 3u);
  comm_.done.clear();
  ExpectRefused(comm_.AllGather(ViewOf(recv_, 1), to_three_, ones_, deadline_), "overlap");
  ExpectRefused(comm_.AllToAll(to_three_, ones_, to_three_, ones_, deadline_), "overlap");
}

TEST_F(RunTest, WhatIsWrongIsRefusedBeforeAnythingIsDone) {
  const Buffer ints{recv_, 3, DType::kInt32};
  ExpectRefused(comm_.AllReduce(three_, to_one_, ReduceOp::kSum, deadline_), "recv has 1");
  ExpectRefused(comm_.AllReduce(three_, ints, ReduceOp::kSum, deadline_), "int32");
  ExpectRefused(comm_.Reduce(three_, {}, ReduceOp::kSum, 3, deadline_), "root 3");
  ExpectRefused(comm_.Reduce({send_, 3, DType::kFloat8E4M3}, {}, ReduceOp::kSum, 0, deadline_),
                "cast");
  ExpectRefused(comm_.Broadcast(one_, to_three_, 1, deadline_), "send has 1");
  ExpectRefused(comm_.AllGather(one_, to_three_, {1, 1}, deadline_), "2 counts");
  ExpectRefused(comm_.Gather(three_, {}, ones_, 0, deadline_), "send has 3");
  ExpectRefused(comm_.ReduceScatter(one_, to_one_, ones_, ReduceOp::kSum, deadline_), "send has 1");
  ExpectRefused(comm_.Scatter({}, to_three_, ones_, 0, deadline_), "recv has 3");
  ExpectRefused(comm_.AllToAll(three_, ones_, to_three_, {1, 1, -1}, deadline_), "negative");
  ExpectRefused(comm_.Send(one_, 1, deadline_), "itself");
  ExpectRefused(comm_.Recv(to_one_, 3, deadline_), "peer 3");
  ExpectRefused(comm_.SendRecv(one_, 0, {send_, 1, DType::kFloat32}, 2, deadline_), "overlap");
}

TEST_F(RunTest, WhatOnlyTheRootHasAPartInIsEmptyOnTheOthers) {
  EXPECT_EQ(comm_.Reduce(three_, to_three_, ReduceOp::kSum, 0, deadline_), OkStatus());
  EXPECT_EQ(comm_.Gather(one_, to_three_, ones_, 0, deadline_), OkStatus());
  EXPECT_EQ(comm_.Broadcast(three_, to_three_, 0, deadline_), OkStatus());
  EXPECT_EQ(comm_.Scatter(three_, to_one_, ones_, 0, deadline_), OkStatus());
  ASSERT_EQ(comm_.done.size(), 4u);
  EXPECT_EQ(comm_.done[0].recv.count, 0u);
  EXPECT_EQ(comm_.done[1].recv.count, 0u);
  EXPECT_EQ(comm_.done[2].send.count, 0u);
  EXPECT_EQ(comm_.done[3].send.count, 0u);
}

TEST_F(RunTest, AnUnusableCommunicatorSaysWhyWhateverItIsAsked) {
  comm_.failure = Unavailable("rank 2 ended");
  EXPECT_EQ(comm_.Barrier(deadline_), comm_.failure);
  EXPECT_EQ(comm_.Send(one_, 1, deadline_), comm_.failure);
  EXPECT_TRUE(comm_.done.empty());
}

}  // namespace
}  // namespace lockstep::collective
