#include "runtime/client/link.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include "runtime/control/message_codec.h"
#include "schemas/session.capnp.h"
#include "tests/support/fake_channel.h"

namespace lockstep::client {
namespace {

using support::FakeChannel;

// What the controller says is there already.
template <typename Fill>
void Add(FakeChannel& channel, Fill fill) {
  channel.Arrive({control::EncodeMessage<wire::ControllerMessage>(fill)});
}

OpenRequest Request() {
  OpenRequest request;
  request.timeout = std::chrono::seconds(20);
  return request;
}

TEST(LinkTest, AnythingButASessionIsNoAnswerToItsQuestion) {
  auto channel = std::make_unique<FakeChannel>();
  Add(*channel, [](auto message) { message.initCredit(); });
  EXPECT_EQ(Link::Open(Request(), std::move(channel)).status().code(), StatusCode::kInternal);
}

// Each of them is answered; the next one was taken in inside of that, and so on, until there was no
// stack left.
TEST(LinkTest, MessagesThatAreAnsweredAreTakenInOneAfterAnother) {
  constexpr int kMessages = 200'000;
  auto made = std::make_unique<FakeChannel>();
  FakeChannel& channel = *made;
  Add(channel, [](auto message) { message.initSessionOpened().setLeaseMillis(60'000); });
  for (int i = 0; i < kMessages; ++i) {
    Add(channel, [&](auto message) { message.initKeepAlive().setSent(2 + i); });
  }
  auto link = Link::Open(Request(), std::move(made));
  ASSERT_TRUE(link.ok()) << link.status();
  (*link)->Drain();
  EXPECT_FALSE(channel.HasInput());
  EXPECT_GE(channel.sent().size(), size_t{kMessages});
  EXPECT_EQ((*link)->Lost(), OkStatus());
}

}  // namespace
}  // namespace lockstep::client
