// Bulk copies over a real connection that is cut and held up while they go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/base/sanitizers.h"
#include "runtime/client/bulk_transfer.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "runtime/tensor/storage.h"
#include "services/worker/bulk/bulk_server.h"
#include "tests/support/tcp_proxy.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// Much enough that three cuts come in the middle of it: sanitized programs take several times as
// long.
constexpr size_t kSize = (size_t{kSanitized ? 64 : 256} << 20) + 77;

class BulkWireTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto channel = control::ZmqListen(context_, "tcp://127.0.0.1:*");
    ASSERT_TRUE(channel.ok()) << channel.status();
    server_ = std::make_unique<worker::BulkServer>(std::move(*channel));
    proxy_ = std::make_unique<support::TcpProxy>(server_->endpoint());
    const auto tensor =
        tensor::Tensor::Empty(*allocator_, DType::kUInt8, {static_cast<int64_t>(kSize)});
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    tensor_ = *tensor;
    std::memset(tensor_.data(), 0, kSize);
    for (size_t i = 0; i < kSize; ++i) memory_[i] = static_cast<uint8_t>((i * 2654435761u) >> 17);
  }

  // As a client goes about it: a connection that is given up is followed by another one, with
  // another ticket. Returns how many it took.
  int Finish(client::BulkTransfer& transfer) {
    for (int connections = 1;; ++connections) {
      if (ticket_ != 0) server_->Withdraw(ticket_);
      ticket_ = server_->Publish(tensor_);
      auto channel =
          control::ZmqConnect(context_, proxy_->endpoint(), {.linger = 0ms, .keeps_unsent = false});
      EXPECT_TRUE(channel.ok()) << channel.status();
      const StatusOr<bool> over =
          transfer.Continue(**channel, ticket_, {[] { return OkStatus(); }, pace_, 60s});
      EXPECT_TRUE(over.ok()) << over.status();
      // What the server's thread has written is looked at by this one, in the same process.
      server_->Synchronise();
      if (!over.ok() || *over) return connections;
    }
  }

  // Runs `trouble` again and again while `finish` runs.
  template <typename Trouble, typename Finish>
  static int Amid(Trouble trouble, Finish finish) {
    std::atomic<bool> over{false};
    std::thread saboteur([&] {
      while (!over) trouble();
    });
    const int connections = finish();
    over = true;
    saboteur.join();
    return connections;
  }

  const std::shared_ptr<tensor::Allocator> allocator_ = tensor::NewHeapAllocator();
  const std::shared_ptr<control::ZmqContext> context_ = control::ZmqContext::Create();
  std::unique_ptr<worker::BulkServer> server_;
  std::unique_ptr<support::TcpProxy> proxy_;
  tensor::Tensor tensor_;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kSize);
  client::BulkPace pace_;
  uint64_t ticket_ = 0;
};

TEST_F(BulkWireTest, CutsLoseNothing) {
  // Three cuts, in the middle of it.
  const auto cut_three_times = [this, cuts = 0]() mutable {
    std::this_thread::sleep_for(40ms);
    if (++cuts <= 3) proxy_->Cut();
  };
  auto write = client::BulkTransfer::Write(memory_.data(), kSize);
  EXPECT_GT(Amid(cut_three_times, [&] { return Finish(write); }), 1);
  EXPECT_EQ(std::memcmp(tensor_.data(), memory_.data(), kSize), 0);

  std::vector<uint8_t> back(kSize);
  auto read = client::BulkTransfer::Read(back.data(), kSize);
  EXPECT_GT(Amid(cut_three_times, [&] { return Finish(read); }), 1);
  EXPECT_EQ(std::memcmp(back.data(), memory_.data(), kSize), 0);
}

// Then so little is under way that a cut may find nothing to lose; what it does is cut anew.
TEST_F(BulkWireTest, CutsLoseNothingBesideCommands) {
  const auto command_and_cut = [this, rounds = 0]() mutable {
    std::this_thread::sleep_for(5ms);
    server_->NoteCommands();
    if (++rounds % 8 == 0 && rounds <= 24) proxy_->Cut();
  };
  auto write = client::BulkTransfer::Write(memory_.data(), kSize);
  (void)Amid(command_and_cut, [&] { return Finish(write); });
  EXPECT_EQ(std::memcmp(tensor_.data(), memory_.data(), kSize), 0);
}

TEST_F(BulkWireTest, AWireThatStandsStillIsGivenUp) {
  proxy_->HoldUp(2500ms);
  auto write = client::BulkTransfer::Write(memory_.data(), kSize);
  EXPECT_GT(Finish(write), 1);
  EXPECT_EQ(std::memcmp(tensor_.data(), memory_.data(), kSize), 0);
}

TEST_F(BulkWireTest, WhatComesLateUnderAnOldTicketIsNotTakenIn) {
  // All of it goes out, and none of it arrives before the next copy is over.
  proxy_->HoldUp(1500ms);
  {
    auto channel = control::ZmqConnect(context_, proxy_->endpoint(), {.keeps_unsent = false});
    ASSERT_TRUE(channel.ok()) << channel.status();
    ticket_ = server_->Publish(tensor_);
    const std::vector<uint8_t> stale(1 << 20, 0xEE);
    auto write = client::BulkTransfer::Write(stale.data(), stale.size());
    const StatusOr<bool> over =
        write.Continue(**channel, ticket_, {[] { return OkStatus(); }, pace_, 200ms});
    EXPECT_EQ(over.status().code(), StatusCode::kDeadlineExceeded) << over.status();
    // Closed with what is on its way in it, which still goes out.
  }
  auto write = client::BulkTransfer::Write(memory_.data(), kSize);
  Finish(write);
  std::this_thread::sleep_for(2s);
  EXPECT_EQ(std::memcmp(tensor_.data(), memory_.data(), kSize), 0);
}

}  // namespace
}  // namespace lockstep
