#include "runtime/client/flow_window.h"

#include <gtest/gtest.h>

namespace lockstep::client {
namespace {

TEST(FlowWindowTest, SendsUntilTheWindowIsFull) {
  FlowWindow window(1000);
  EXPECT_TRUE(window.MaySend(1000));
  window.Sent(600);
  EXPECT_TRUE(window.MaySend(400));
  EXPECT_FALSE(window.MaySend(401));
}

TEST(FlowWindowTest, ConsumptionMakesRoom) {
  FlowWindow window(1000);
  window.Sent(1000);
  EXPECT_FALSE(window.MaySend(1));
  window.Consumed(300);
  EXPECT_TRUE(window.MaySend(300));
  EXPECT_FALSE(window.MaySend(301));
}

// Reports come every eighth of the window, so an eighth may never be reported.
TEST(FlowWindowTest, BatchLargerThanTheWindowGoesWhenLittleElseIsUnderWay) {
  FlowWindow window(1000);
  EXPECT_TRUE(window.MaySend(1'000'000));
  window.Sent(125);
  EXPECT_TRUE(window.MaySend(1'000'000));
  window.Sent(126);
  EXPECT_FALSE(window.MaySend(1'000'000));
  window.Consumed(1);
  EXPECT_TRUE(window.MaySend(1'000'000));
}

TEST(FlowWindowTest, ReportsOnlyEverGrow) {
  FlowWindow window(1000);
  window.Sent(1000);
  window.Consumed(500);
  window.Consumed(200);  // late, of a slower path
  EXPECT_TRUE(window.MaySend(500));
}

// Taken for what was sent, and no more: a report that is ignored altogether leaves the window full
// for ever, for there is nothing left that could bring another one.
TEST(FlowWindowTest, MoreThanWasSentCannotBeConsumed) {
  FlowWindow window(1000);
  window.Sent(1000);
  window.Consumed(5000);
  EXPECT_TRUE(window.MaySend(1000));
  window.Sent(1000);
  EXPECT_FALSE(window.MaySend(1));
}

}  // namespace
}  // namespace lockstep::client
