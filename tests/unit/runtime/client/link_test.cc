#include "runtime/client/link.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <memory>
#include <utility>

#include "runtime/control/input_waiter.h"
#include "runtime/control/message_codec.h"
#include "schemas/session.capnp.h"

namespace lockstep::client {
namespace {

// What the controller says is there already.
class FakeChannel final : public control::ClientChannel {
 public:
  template <typename Fill>
  void Add(Fill fill) {
    messages_.push_back({control::EncodeMessage<wire::ControllerMessage>(fill)});
    arrived_.Signal();
  }
  int sent() const { return sent_; }

  Status Send(const control::Message&) override {
    ++sent_;
    return OkStatus();
  }
  bool Receive(control::Message* message) override {
    if (messages_.empty()) return false;
    *message = std::move(messages_.front());
    messages_.pop_front();
    return true;
  }
  bool HasInput() override { return !messages_.empty(); }
  int wait_fd() const override { return arrived_.fd(); }
  bool drained() const override { return false; }

 private:
  std::deque<control::Message> messages_;
  control::WakeUp arrived_;
  int sent_ = 0;
};

OpenRequest Request() {
  OpenRequest request;
  request.timeout = std::chrono::seconds(20);
  return request;
}

TEST(LinkTest, AnythingButASessionIsNoAnswerToItsQuestion) {
  auto channel = std::make_unique<FakeChannel>();
  channel->Add([](auto message) { message.initCredit(); });
  EXPECT_EQ(Link::Open(Request(), std::move(channel)).status().code(), StatusCode::kInternal);
}

// Each of them is answered; the next one was taken in inside of that, and so on, until there was no
// stack left.
TEST(LinkTest, MessagesThatAreAnsweredAreTakenInOneAfterAnother) {
  constexpr int kMessages = 200'000;
  auto made = std::make_unique<FakeChannel>();
  FakeChannel& channel = *made;
  channel.Add([](auto message) { message.initSessionOpened().setLeaseMillis(60'000); });
  for (int i = 0; i < kMessages; ++i) {
    channel.Add([&](auto message) { message.initKeepAlive().setSent(2 + i); });
  }
  auto link = Link::Open(Request(), std::move(made));
  ASSERT_TRUE(link.ok()) << link.status();
  (*link)->Drain();
  EXPECT_FALSE(channel.HasInput());
  EXPECT_GE(channel.sent(), kMessages);
  EXPECT_EQ((*link)->Lost(), OkStatus());
}

}  // namespace
}  // namespace lockstep::client
