// Clients with rings of their own, on connections that may lose what they carry.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "runtime/control/input_waiter.h"
#include "runtime/control/shm/ring_client_channel.h"
#include "runtime/control/shm/ring_server_channel.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "tests/support/files.h"
#include "tests/support/patience.h"
#include "tests/unit/runtime/control/shm/test_rings.h"

namespace lockstep::control {

using support::kLong;

// A connection that loses a message.
class LossyChannel final : public ClientChannel {
 public:
  explicit LossyChannel(std::unique_ptr<ClientChannel> inner) : inner_(std::move(inner)) {}

  bool HasInput() override { return inner_->HasInput(); }
  int wait_fd() const override { return inner_->wait_fd(); }
  bool drained() const override { return inner_->drained(); }
  Status Send(const Message& message) override {
    return std::exchange(loses_next_sent, false) ? OkStatus() : inner_->Send(message);
  }
  bool Receive(Message* message) override {
    if (!inner_->Receive(message)) return false;
    if (!std::exchange(loses_next, false)) return true;
    return inner_->Receive(message);
  }

  uint64_t interruptions() override { return interrupted; }

  bool loses_next = false;
  bool loses_next_sent = false;
  uint64_t interrupted = 0;

 private:
  const std::unique_ptr<ClientChannel> inner_;
};

class ClientRingsTest : public testing::Test {
 protected:
  static constexpr int kSlots = 16;

  void SetUp() override { Listen(); }
  void Listen() {
    server_.reset();
    auto sockets = ZmqListen(context_, "ipc://" + directory_.path() + "/clients");
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    auto server = RingServerChannel::Create(std::move(*sockets), RingServerChannel::Peers::kClients,
                                            kSlots, kLong);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
  }

  struct Client {
    std::unique_ptr<RingClientChannel> channel;
    LossyChannel* sockets;  // of it
    PeerName name;
  };
  enum class Note { kArrives, kIsLost };
  // kIsLost: what tells the controller to read the client's ring.
  Client Connect(Note note = Note::kArrives) {
    auto sockets = ZmqConnect(context_, server_->endpoint());
    EXPECT_TRUE(sockets.ok()) << sockets.status();
    auto lossy = std::make_unique<LossyChannel>(std::move(*sockets));
    LossyChannel* const borrowed = lossy.get();
    Client client{std::make_unique<RingClientChannel>(std::move(lossy),
                                                      RingClientChannel::AtEnd::kGoOnBySocket),
                  borrowed, ""};
    EXPECT_TRUE(client.channel->Send(Text("hello")).ok());
    EXPECT_EQ(TakeFromClients(&client.name), "hello");
    borrowed->loses_next_sent = note == Note::kIsLost;
    Attach(client);
    return client;
  }
  // It asks for its rings, and the server hands them over; whether it reads them is yet to be said.
  void HandOver(RingClientChannel& channel, const PeerName& name) {
    const std::optional<RingOffer> offer = server_->OfferTo(name);
    ASSERT_TRUE(offer.has_value());
    Status attached;
    std::thread asking([&] { attached = channel.Attach(*offer, Deadline::After(kLong)); });
    while (!server_->IsByRing(name)) {
      (void)server_->HasInput();
      std::this_thread::yield();
    }
    asking.join();
    ASSERT_TRUE(attached.ok()) << attached;
  }
  void Attach(Client& client) {
    HandOver(*client.channel, client.name);
    ASSERT_TRUE(server_->Send({&client.name, 1}, Text("welcome")).ok());
    ASSERT_EQ(Take(client), "welcome");
    ASSERT_TRUE(client.channel->by_ring());
  }
  void Tell(Client& client, const std::string& text) {
    ASSERT_TRUE(server_->Send({&client.name, 1}, Text(text)).ok());
  }

  std::string TakeFromClients(PeerName* from) {
    Message message;
    while (!server_->Receive(from, &message)) {
      Channel* const channels[] = {server_.get()};
      if (!waiter_.Wait(channels, {}, Deadline::After(kLong))) return "nothing";
    }
    return TextOf(message);
  }
  std::string Take(Client& client) {
    Message message;
    while (!client.channel->Receive(&message)) {
      Channel* const channels[] = {client.channel.get()};
      if (!waiter_.Wait(channels, {}, Deadline::After(kLong))) return "nothing";
    }
    return TextOf(message);
  }

  const support::ScratchDirectory directory_;
  const std::shared_ptr<ZmqContext> context_ = ZmqContext::Create();
  std::unique_ptr<RingServerChannel> server_;
  InputWaiter waiter_{std::chrono::microseconds(0)};
};

}  // namespace lockstep::control
