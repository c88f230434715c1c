#include "runtime/base/silence.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

class SilenceTest : public testing::Test {
 protected:
  // The loop runs, and hears nothing.
  void Run(int rounds) {
    for (int i = 0; i < rounds; ++i) silence_.Round(now_ += 500ms);
  }

  Deadline::Clock::time_point now_{1h};
  Silence silence_{500ms, now_};
};

TEST_F(SilenceTest, LastsSinceTheOtherWasHeard) {
  EXPECT_EQ(silence_.Length(now_), 0s);
  Run(6);
  EXPECT_EQ(silence_.Length(now_), 3s);
  silence_.Hear(now_);
  EXPECT_EQ(silence_.Length(now_), 0s);
  EXPECT_EQ(silence_.Length(now_ + 200ms), 200ms);
}

TEST_F(SilenceTest, TimeInWhichThisProcessDidNotRunDoesNotCount) {
  Run(6);
  now_ += 13s;
  EXPECT_EQ(silence_.Length(now_), 3500ms) << "whatever asks before the loop comes round";
  silence_.Round(now_);
  EXPECT_EQ(silence_.Length(now_), 3500ms);
  Run(2);
  EXPECT_EQ(silence_.Length(now_), 4500ms) << "what comes after it counts";
}

TEST_F(SilenceTest, ARoundThatIsMerelyLateCounts) {
  silence_.Round(now_ += 900ms);
  EXPECT_EQ(silence_.Length(now_), 900ms);
}

// One whose every round is late still comes to an end.
TEST_F(SilenceTest, ALoopThatIsAlwaysLateNoticesSilenceLater) {
  for (int i = 0; i < 10; ++i) silence_.Round(now_ += 2s);
  EXPECT_EQ(silence_.Length(now_), 5s);
}

// It was heard, and then this process was stopped in the same round.
TEST_F(SilenceTest, IsNeverNegative) {
  silence_.Hear(now_ + 400ms);
  silence_.Round(now_ += 5s);
  EXPECT_GE(silence_.Length(now_), 0s);
  silence_.Hear(now_);
  EXPECT_EQ(silence_.Length(now_ - 1ms), 0s);
}

}  // namespace
}  // namespace lockstep
