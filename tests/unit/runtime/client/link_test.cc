#include "runtime/client/link.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "runtime/base/version.h"
#include "runtime/control/message_codec.h"
#include "schemas/bulk.capnp.h"
#include "schemas/protocol.capnp.h"
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

// Read as a controller's, it would open a session with 73 workers.
TEST(LinkTest, TheAnswerOfAWorkersBulkSocketOpensNoSession) {
  auto channel = std::make_unique<FakeChannel>();
  channel->Arrive({control::EncodeMessage<wire::BulkReply>([](wire::BulkReply::Builder reply) {
    reply.setTicket(73);
    reply.setOffset(uint64_t{1} << 40);
  })});
  OpenRequest request = Request();
  request.endpoint = "tcp://10.0.0.1:7003";
  const Status opened = Link::Open(request, std::move(channel)).status();
  EXPECT_EQ(opened.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Message(opened), std::string("a worker's bulk socket of Lockstep ") + kBuildVersion +
                                 " answers at tcp://10.0.0.1:7003, not a controller's client port");
}

TEST(LinkTest, AListenerThatSaysWhoItIsAndWhereToGoIsQuoted) {
  auto channel = std::make_unique<FakeChannel>();
  channel->Arrive(
      {control::EncodeMessage<wire::WrongProtocol>([](wire::WrongProtocol::Builder answer) {
        answer.setSpeaker("a controller's worker port of Lockstep 9.9.9");
        answer.setHint("the controller's client port is tcp://10.0.0.1:7000");
      })});
  OpenRequest request = Request();
  request.endpoint = "tcp://10.0.0.1:7001";
  EXPECT_EQ(Message(Link::Open(request, std::move(channel)).status()),
            "a controller's worker port of Lockstep 9.9.9 answers at tcp://10.0.0.1:7001, not a "
            "controller's client port; the controller's client port is tcp://10.0.0.1:7000");
}

// Each of them is answered; the next one was taken in inside of that, and so on, until there was no
// stack left.
TEST(LinkTest, MessagesThatAreAnsweredAreTakenInOneAfterAnother) {
  constexpr int kMessages = 50'000;
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
