#include "services/worker/report/command_spans.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lockstep::worker {
namespace {

using trace::Event;
using trace::Kind;

class CommandSpansTest : public testing::Test {
 protected:
  void Execute(uint64_t command, const char* name) {
    spans_.Begin(SessionId(3), command, name);
    spans_.End();
  }

  CommandSpans spans_;
};

TEST_F(CommandSpansTest, CommandsOfABatchFollowOneAnother) {
  spans_.ring().Start(10);
  const auto taken = Deadline::Clock::now();
  spans_.EndWait(taken);
  Execute(1, "call");
  Execute(2, "sync");
  spans_.ring().Stop();
  ASSERT_EQ(spans_.ring().size(), 3u);
  const Event wait = spans_.ring().at(0);
  EXPECT_EQ(wait.kind, Kind::kWait);
  EXPECT_EQ(wait.begin, spans_.ring().started());
  EXPECT_EQ(wait.end, trace::Nanos(taken));
  const Event first = spans_.ring().at(1);
  EXPECT_EQ(first.begin, wait.end);
  EXPECT_EQ(first.session, 3u);
  EXPECT_EQ(first.command, 1u);
  EXPECT_STREQ(first.name, "call");
  EXPECT_EQ(spans_.ring().at(2).begin, first.end);
}

TEST_F(CommandSpansTest, StepsLieInsideTheirCommand) {
  spans_.AddStep({.name = "nowhere", .began = 1, .ended = 2});
  spans_.ring().Start(10);
  spans_.EndWait(Deadline::Clock::now());
  spans_.Begin(SessionId(3), 7, "execute plan");
  const int64_t began = trace::Now();
  spans_.AddStep({.number = 4, .name = "layer", .began = began, .ended = trace::Now()});
  spans_.End();
  spans_.ring().Stop();
  ASSERT_EQ(spans_.ring().size(), 3u);
  const Event step = spans_.ring().at(1);
  const Event command = spans_.ring().at(2);
  EXPECT_STREQ(step.name, "layer");
  EXPECT_EQ(step.step, 5u);
  EXPECT_EQ(command.step, 0u);
  EXPECT_EQ(step.session, 3u);
  EXPECT_EQ(step.command, 7u);
  EXPECT_EQ(step.begin, began);
  EXPECT_LE(command.begin, step.begin);
  EXPECT_LE(step.end, command.end);
}

TEST_F(CommandSpansTest, WhatWasBeforeTheRecordingIsNotToldOf) {
  const auto taken = Deadline::Clock::now();
  spans_.ring().Start(10);
  // A batch was taken before, and is executed still.
  spans_.EndWait(taken);
  Execute(5, "call");
  spans_.ring().Stop();
  ASSERT_EQ(spans_.ring().size(), 1u);
  EXPECT_GE(spans_.ring().at(0).begin, spans_.ring().started());
}

TEST_F(CommandSpansTest, CollectivesSayWhatTheyWere) {
  spans_.ring().Start(10);
  spans_.Begin(SessionId(3), 7, "collective");
  spans_.Name("allreduce", Kind::kCollective);
  CollectiveFacts facts;
  facts.backend = "shm";
  facts.ranks = 4;
  facts.first = 2;
  facts.bytes = 4096;
  spans_.Describe(facts);
  spans_.Fail(SessionId(3), 6, StatusCode::kInternal);
  spans_.Fail(SessionId(4), 7, StatusCode::kInternal);
  EXPECT_TRUE(spans_.is_open()) << "others have failed";
  spans_.Fail(SessionId(3), 7, StatusCode::kAborted);
  EXPECT_FALSE(spans_.is_open()) << "recorded before others are told";
  // This rank has no part in it.
  spans_.Begin(SessionId(3), 8, "collective");
  spans_.Name("transfer", Kind::kCollective);
  spans_.Describe(CollectiveFacts());
  spans_.End();
  spans_.ring().Stop();
  const Event event = spans_.ring().at(0);
  EXPECT_STREQ(event.name, "allreduce");
  EXPECT_EQ(event.kind, Kind::kCollective);
  EXPECT_STREQ(event.backend, "shm");
  EXPECT_EQ(event.ranks, 4);
  EXPECT_EQ(event.first, 2);
  EXPECT_EQ(event.bytes, 4096u);
  EXPECT_EQ(event.code, static_cast<uint16_t>(StatusCode::kAborted));
  EXPECT_EQ(spans_.ring().at(1).kind, Kind::kCommand);
}

TEST_F(CommandSpansTest, NothingIsNotedOfACommandThatIsNotRecorded) {
  spans_.Name("allreduce", Kind::kCollective);
  spans_.Fail(SessionId(3), 7, StatusCode::kAborted);
  EXPECT_FALSE(spans_.is_open());
  spans_.ring().Start(10);
  Execute(1, "call");
  spans_.ring().Stop();
  EXPECT_STREQ(spans_.ring().at(0).name, "call");
  EXPECT_EQ(spans_.ring().at(0).code, 0);
}

}  // namespace
}  // namespace lockstep::worker
