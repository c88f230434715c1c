#include "services/controller/sessions/gatherer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr SessionId kSession(3);
constexpr RequestId kRequest(9);
constexpr int kWorkers = 4;

control::RemoteError Error(StatusCode code, Rank rank, const std::string& message = "why") {
  control::RemoteError error;
  error.code = code;
  error.rank = rank;
  error.message = message;
  return error;
}

control::Frame Body(const std::string& text) {
  return control::Frame::Copy(text.data(), text.size());
}

class GathererTest : public testing::Test {
 protected:
  void Expect(Rank from, RequestId request = kRequest, SessionId session = kSession) {
    gatherer_.Expect("client", session, request, kWorkers, from, Deadline::At(now_ + 1s), now_);
  }
  void Answer(Rank rank, const control::RemoteError& error = {}, control::Frame body = {}) {
    gatherer_.Answer(kSession, kRequest, rank, error, std::move(body));
  }

  const Deadline::Clock::time_point now_ = Deadline::Clock::now();
  std::vector<PendingRequest> finished_;
  Gatherer gatherer_{[this](const PendingRequest& request) { finished_.push_back(request); },
                     [this](SessionId, const std::vector<Rank>& ranks) {
                       late_ = ranks;
                       return Error(StatusCode::kDeadlineExceeded, ranks.front());
                     }};
  std::vector<Rank> late_;
};

TEST_F(GathererTest, AllRanksMakeOneAnswer) {
  Expect(-1);
  for (Rank rank : {2, 0, 3}) {
    Answer(rank);
    EXPECT_TRUE(finished_.empty());
  }
  Answer(1);
  ASSERT_EQ(finished_.size(), 1u);
  EXPECT_EQ(finished_[0].client, "client");
  EXPECT_EQ(finished_[0].session, kSession);
  EXPECT_EQ(finished_[0].request, kRequest);
  EXPECT_TRUE(finished_[0].error.ok());
}

TEST_F(GathererTest, OneRankAnswersForItself) {
  Expect(2);
  Answer(1);
  EXPECT_TRUE(finished_.empty());
  Answer(2, {}, Body("value"));
  ASSERT_EQ(finished_.size(), 1u);
  EXPECT_EQ(finished_[0].JoinedBodies().size(), 5u);
}

TEST_F(GathererTest, WhatAllRanksAnswerIsTold) {
  Expect(-1);
  for (int i = kWorkers - 1; i >= 0; --i) Answer(i, {}, Body("from " + std::to_string(i)));
  ASSERT_EQ(finished_.size(), 1u);
  EXPECT_EQ(finished_[0].JoinedBodies().size(), kWorkers * std::string("from 0").size());
}

TEST_F(GathererTest, RankThatAnswersTwiceCountsOnce) {
  Expect(-1);
  for (int i = 0; i < kWorkers; ++i) Answer(0);
  EXPECT_TRUE(finished_.empty());
}

TEST_F(GathererTest, AnswersNobodyWaitsForAreIgnored) {
  Answer(0);
  Expect(0);
  Answer(0);
  Answer(0);
  gatherer_.Answer(SessionId(99), kRequest, 0, {}, {});
  gatherer_.Answer(kSession, RequestId(99), 0, {}, {});
  EXPECT_EQ(finished_.size(), 1u);
}

TEST_F(GathererTest, FirstErrorIsKept) {
  Expect(-1);
  Answer(0);
  Answer(2, Error(StatusCode::kInternal, 2));
  Answer(1, Error(StatusCode::kNotFound, 1));
  EXPECT_TRUE(finished_.empty()) << "the others have not answered yet";
  Answer(3);
  ASSERT_EQ(finished_.size(), 1u);
  EXPECT_EQ(finished_[0].error.code, StatusCode::kInternal);
  EXPECT_EQ(finished_[0].error.rank, 2);
}

// An abort is what others do because of the cause.
TEST_F(GathererTest, CauseBeatsAbortsThatCameBeforeIt) {
  Expect(-1);
  Answer(0, Error(StatusCode::kAborted, 0));
  Answer(1, Error(StatusCode::kAborted, 1));
  Answer(2, Error(StatusCode::kInternal, 2));
  Answer(3, Error(StatusCode::kAborted, 3));
  ASSERT_EQ(finished_.size(), 1u);
  EXPECT_EQ(finished_[0].error.code, StatusCode::kInternal);
  EXPECT_EQ(finished_[0].error.rank, 2);
}

TEST_F(GathererTest, FailingASessionCompletesItsRequestsOnly) {
  Expect(-1, RequestId(1));
  Expect(0, RequestId(2));
  Expect(-1, RequestId(1), SessionId(2));
  Expect(-1, RequestId(1), SessionId(4));
  gatherer_.FailAll(kSession, Error(StatusCode::kInternal, 2));
  ASSERT_EQ(finished_.size(), 2u);
  for (const PendingRequest& request : finished_) {
    EXPECT_EQ(request.session, kSession);
    EXPECT_EQ(request.error.rank, 2);
  }
  gatherer_.FailAll(kSession, Error(StatusCode::kInternal, 2));
  EXPECT_EQ(finished_.size(), 2u);
}

TEST_F(GathererTest, DeadlineNamesTheLateRanks) {
  Expect(-1);
  Answer(1);
  EXPECT_EQ(gatherer_.Expire(now_).when(), now_ + 1s);
  EXPECT_TRUE(finished_.empty());
  gatherer_.Expire(now_ + 1s);
  ASSERT_EQ(finished_.size(), 1u);
  EXPECT_EQ(finished_[0].error.code, StatusCode::kDeadlineExceeded);
  EXPECT_THAT(late_, testing::ElementsAre(0, 2, 3));
  Answer(0);  // too late
  EXPECT_EQ(finished_.size(), 1u);
}

TEST_F(GathererTest, NextDeadlineIsTheEarliest) {
  Expect(-1, RequestId(1));
  gatherer_.Expect("client", kSession, RequestId(2), kWorkers, 0, Deadline::At(now_ + 300ms), now_);
  EXPECT_EQ(gatherer_.Expire(now_).when(), now_ + 300ms);
  EXPECT_EQ(gatherer_.Expire(now_ + 300ms).when(), now_ + 1s);
  EXPECT_EQ(finished_.size(), 1u);
}

TEST_F(GathererTest, NothingPendingMeansAFarDeadline) {
  EXPECT_GE(gatherer_.Expire(now_).when(), now_ + 1min);
}

// What they execute meanwhile would tell nothing.
TEST_F(GathererTest, WhatRanksDoBesideTheirCommandsIsTold) {
  gatherer_.Expect("client", kSession, kRequest, kWorkers, -1, Deadline::At(now_ + 1s), now_,
                   "compile f.mlir");
  Answer(1);
  Answer(3);
  gatherer_.Expire(now_ + 2s);
  ASSERT_EQ(finished_.size(), 1u);
  EXPECT_EQ(finished_[0].error.code, StatusCode::kDeadlineExceeded);
  EXPECT_EQ(finished_[0].error.message,
            "no answer in time: ranks 0, 2 did not yet compile f.mlir; they go on, and asking once "
            "more waits for that");
}

}  // namespace
}  // namespace lockstep::controller
