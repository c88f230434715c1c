#include "runtime/client/link.h"

#include <gtest/gtest.h>

namespace lockstep::client {
namespace {

TEST(FlowWindowTest, WhatIsSentOrYetToBeSentTakesRoom) {
  FlowWindow window(1000);
  EXPECT_TRUE(window.HasRoom(0));
  EXPECT_TRUE(window.HasRoom(999));
  EXPECT_FALSE(window.HasRoom(1000));
  window.Sent(700);
  EXPECT_TRUE(window.HasRoom(299));
  EXPECT_FALSE(window.HasRoom(300));
}

TEST(FlowWindowTest, OneBatchMayOvershoot) {
  FlowWindow window(1000);
  window.Sent(999);
  EXPECT_TRUE(window.HasRoom(0));
  window.Sent(1'000'000);
  EXPECT_FALSE(window.HasRoom(0));
  window.Consumed(999);
  EXPECT_FALSE(window.HasRoom(0));
  window.Consumed(1'000'000);
  EXPECT_TRUE(window.HasRoom(0)) << "999 bytes are under way";
}

TEST(FlowWindowTest, WhatAnotherClientHasUnderWayTakesRoom) {
  FlowWindow window(1000, 5000, 600);
  EXPECT_EQ(window.sent(), 5000u);
  EXPECT_TRUE(window.HasRoom(399));
  EXPECT_FALSE(window.HasRoom(400));
  window.Consumed(4900);
  EXPECT_TRUE(window.HasRoom(899));
  EXPECT_FALSE(window.HasRoom(900));
}

TEST(FlowWindowTest, ReportsOnlyEverGrow) {
  FlowWindow window(1000);
  window.Sent(1000);
  window.Consumed(800);
  window.Consumed(300);  // an older one
  EXPECT_TRUE(window.HasRoom(799));
  EXPECT_FALSE(window.HasRoom(800));
}

TEST(FlowWindowTest, MoreThanWasSentCannotBeConsumed) {
  FlowWindow window(1000);
  window.Sent(100);
  window.Consumed(1'000'000);
  EXPECT_TRUE(window.HasRoom(999));
  window.Sent(1000);
  EXPECT_FALSE(window.HasRoom(0));
}

}  // namespace
}  // namespace lockstep::client
