// A controller's channel for its workers and theirs, over ZeroMQ's.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "runtime/control/input_waiter.h"
#include "runtime/control/shm/ring_client_channel.h"
#include "runtime/control/shm/ring_server_channel.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "tests/support/patience.h"
#include "tests/unit/runtime/control/shm/test_rings.h"

namespace lockstep::control {

class RingChannelsTest : public testing::Test {
 protected:
  static constexpr auto kPeers = RingServerChannel::Peers::kWorkers;
  static constexpr int kSlots = 3;

  void SetUp() override { Listen(support::kLong); }
  void Listen(std::chrono::milliseconds longest_gap) {
    auto sockets = ZmqListen(context_, "inproc://ring_channels_test");
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    auto server = RingServerChannel::Create(std::move(*sockets), kPeers, kSlots, longest_gap);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
  }

  struct Worker {
    std::unique_ptr<RingClientChannel> channel;
    PeerName name;
  };
  // One that has said hello.
  Worker Connect() {
    auto sockets = ZmqConnect(context_, server_->endpoint());
    EXPECT_TRUE(sockets.ok()) << sockets.status();
    Worker worker{
        std::make_unique<RingClientChannel>(std::move(*sockets), RingClientChannel::AtEnd::kStop),
        ""};
    EXPECT_TRUE(worker.channel->Send(Text("hello")).ok());
    EXPECT_EQ(TakeFromWorkers(&worker.name), "hello");
    return worker;
  }
  // The same, with its ring.
  Worker ConnectByRing() {
    Worker worker = Connect();
    const std::optional<RingOffer> offer = server_->OfferTo(worker.name);
    EXPECT_TRUE(offer.has_value());
    Status attached;
    std::thread asking(
        [&] { attached = worker.channel->Attach(*offer, Deadline::After(support::kLong)); });
    while (!server_->IsByRing(worker.name)) {
      (void)server_->HasInput();
      std::this_thread::yield();
    }
    asking.join();
    EXPECT_TRUE(attached.ok()) << attached;
    return worker;
  }

  // The next message at either end, waiting for it as services do.
  std::string TakeFromWorkers(PeerName* from) {
    Message message;
    while (!server_->Receive(from, &message)) {
      Channel* const channels[] = {server_.get()};
      if (!waiter_.Wait(channels, {}, Deadline::After(support::kLong))) return "nothing";
    }
    return TextOf(message);
  }
  std::string Take(Worker& worker) {
    Message message;
    while (!worker.channel->Receive(&message)) {
      Channel* const channels[] = {worker.channel.get()};
      if (!waiter_.Wait(channels, {}, Deadline::After(support::kLong))) return "nothing";
    }
    return TextOf(message);
  }
  // All that is said before the worker switches has been read by both.
  void Exchange(Worker& worker) {
    ASSERT_TRUE(server_->Send({&worker.name, 1}, Text("ask")).ok());
    ASSERT_EQ(Take(worker), "ask");
    ASSERT_TRUE(worker.channel->by_ring());
    ASSERT_TRUE(worker.channel->Send(Text("answer")).ok());
    PeerName from;
    ASSERT_EQ(TakeFromWorkers(&from), "answer");
    ASSERT_EQ(from, worker.name);
  }

  const std::shared_ptr<ZmqContext> context_ = ZmqContext::Create();
  std::unique_ptr<RingServerChannel> server_;
  InputWaiter waiter_{std::chrono::microseconds(0)};
};

}  // namespace lockstep::control
