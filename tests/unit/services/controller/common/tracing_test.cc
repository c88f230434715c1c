#include "services/controller/common/tracing.h"

#include <gtest/gtest.h>

#include "tests/unit/services/controller/fakes.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;

class TracingTest : public testing::Test {
 protected:
  FakeClock clock_;
  const TimePoint now_ = clock_.Now();
  Tracing tracing_{clock_, 2};
};

TEST_F(TracingTest, ThereIsOneAtATimeAndItBelongsToItsClient) {
  ASSERT_EQ(tracing_.Begin("a", 10, now_), OkStatus());
  const uint64_t trace = tracing_.trace();
  EXPECT_NE(trace, 0u);
  EXPECT_EQ(tracing_.Begin("b", 10, now_).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(tracing_.Hear("a", trace, now_), OkStatus());
  EXPECT_EQ(tracing_.Hear("b", trace, now_).code(), StatusCode::kNotFound);
  EXPECT_EQ(tracing_.Hear("a", trace + 1, now_).code(), StatusCode::kNotFound);
  tracing_.End();
  EXPECT_EQ(tracing_.Hear("a", 0, now_).code(), StatusCode::kNotFound);
  ASSERT_EQ(tracing_.Begin("b", 10, now_), OkStatus());
  EXPECT_EQ(tracing_.Hear("a", trace, now_).code(), StatusCode::kNotFound);
}

TEST_F(TracingTest, AClientThatBeginsAnewHasTheNewOne) {
  ASSERT_EQ(tracing_.Begin("a", 10, now_), OkStatus());
  const uint64_t first = tracing_.trace();
  ASSERT_EQ(tracing_.Begin("a", 10, now_), OkStatus());
  EXPECT_EQ(tracing_.Hear("a", first, now_).code(), StatusCode::kNotFound);
}

TEST_F(TracingTest, AbsurdNumbersOfEventsAreRefused) {
  EXPECT_EQ(tracing_.Begin("a", 0, now_).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(tracing_.Begin("a", 1u << 30, now_).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(tracing_.trace(), 0u);
}

TEST_F(TracingTest, ASilentClientIsNoticed) {
  EXPECT_FALSE(tracing_.IsSilent(1s, now_ + 1h));
  ASSERT_EQ(tracing_.Begin("a", 10, now_), OkStatus());
  EXPECT_FALSE(tracing_.IsSilent(1s, now_ + 900ms));
  EXPECT_EQ(tracing_.Hear("a", tracing_.trace(), now_ + 900ms), OkStatus());
  EXPECT_FALSE(tracing_.IsSilent(1s, now_ + 1800ms));
  EXPECT_TRUE(tracing_.IsSilent(1s, now_ + 2s));
  tracing_.Forgive(500ms);
  EXPECT_FALSE(tracing_.IsSilent(1s, now_ + 2s));
}

TEST_F(TracingTest, ARankIsAskedOnceAtATime) {
  ASSERT_EQ(tracing_.Begin("a", 10, now_), OkStatus());
  EXPECT_EQ(tracing_.Ask(1, now_), OkStatus());
  EXPECT_EQ(tracing_.Ask(1, now_).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(tracing_.Ask(0, now_), OkStatus());
  tracing_.NoteAnswered(1);
  EXPECT_EQ(tracing_.Ask(1, now_), OkStatus());
  EXPECT_EQ(tracing_.Ask(1, now_ + 1min), OkStatus()) << "an answer may be lost";
}

TEST_F(TracingTest, TellsWhatTheControllerDidOnceItIsStopped) {
  tracing_.Mark("too early");
  ASSERT_EQ(tracing_.Begin("a", 10, now_), OkStatus());
  tracing_.Mark("session aborted", SessionId(3), 7, StatusCode::kInternal);
  tracing_.AddBatch(SessionId(3), 8, 640, now_);
  EXPECT_TRUE(tracing_.Events(0).events.empty());
  tracing_.Stop();
  tracing_.Mark("too late");
  const trace::Events events = tracing_.Events(0);
  EXPECT_EQ(events.rank, -1);
  EXPECT_EQ(events.threads, 1);
  ASSERT_EQ(events.events.size(), 2u);
  EXPECT_STREQ(events.events[0].name, "session aborted");
  EXPECT_EQ(events.events[0].kind, trace::Kind::kMark);
  EXPECT_EQ(events.events[0].code, static_cast<uint16_t>(StatusCode::kInternal));
  EXPECT_EQ(events.events[1].kind, trace::Kind::kBatch);
  EXPECT_EQ(events.events[1].begin, trace::Nanos(now_));
  EXPECT_EQ(events.events[1].command, 8u);
}

}  // namespace
}  // namespace lockstep::controller
