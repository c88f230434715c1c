#include "services/worker/bulk/bulk_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/bulk_memory.h"
#include "runtime/base/deadline.h"
#include "runtime/base/random.h"
#include "runtime/base/version.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "runtime/tensor/storage.h"
#include "schemas/session.capnp.h"
#include "tests/support/patience.h"
#include "tests/unit/services/worker/cuda_tensor.h"

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

struct Reply {
  uint64_t ticket = 0;
  uint64_t offset = 0;
  uint64_t checksum = 0;
  Status error;
  std::string data;
  bool commands_came = false;
};

class BulkServerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto channel = control::ZmqListen(context_, "inproc://bulk-" + RandomHex(4));
    ASSERT_TRUE(channel.ok());
    server_ = std::make_unique<BulkServer>(std::move(*channel));
    client_ = std::move(*control::ZmqConnect(context_, server_->endpoint()));
    tensor_ = *tensor::Tensor::Empty(*allocator_, DType::kUInt8, {100});
    std::iota(tensor_.data_as<uint8_t>(), tensor_.data_as<uint8_t>() + 100, uint8_t{0});
    ticket_ = server_->Publish(tensor_);
  }
  void TearDown() override {
    client_.reset();
    server_.reset();
  }

  template <typename Fill>
  Reply Ask(uint64_t ticket, uint64_t offset, Fill fill,
            const std::vector<std::string>& frames = {}) {
    control::Message message = {
        control::EncodeMessage<wire::BulkRequest>([&](wire::BulkRequest::Builder request) {
          request.setTicket(ticket);
          request.setOffset(offset);
          fill(request);
        })};
    for (const std::string& frame : frames) {
      message.push_back(control::Frame::Copy(frame.data(), frame.size()));
    }
    EXPECT_TRUE(client_->Send(message).ok());
    return Receive();
  }
  Reply Read(uint64_t ticket, uint64_t offset, uint64_t size) {
    return Ask(ticket, offset, [&](auto request) { request.setRead(size); });
  }
  Reply Write(uint64_t ticket, uint64_t offset, const std::vector<std::string>& frames) {
    const uint64_t checksum =
        frames.empty() ? 0 : Checksum(frames.front().data(), frames.front().size());
    return Ask(
        ticket, offset, [&](auto request) { request.setWrite(checksum); }, frames);
  }
  Reply Receive() {
    control::InputWaiter waiter(0us);
    control::Channel* const channels[] = {client_.get()};
    EXPECT_TRUE(waiter.Wait(channels, {}, Deadline::After(support::kLong)));
    control::Message message;
    Reply reply;
    if (!client_->Receive(&message) || message.empty()) return reply;
    EXPECT_TRUE(
        control::DecodeMessage<wire::BulkReply>(message[0], [&](wire::BulkReply::Reader reader) {
          reply.ticket = reader.getTicket();
          reply.offset = reader.getOffset();
          reply.checksum = reader.getChecksum();
          reply.commands_came = reader.getCommandsCame();
          if (reader.hasError()) {
            reply.error = control::ReadError(reader.getError()).ToStatus();
          }
          return OkStatus();
        }).ok());
    if (message.size() > 1) {
      reply.data.assign(reinterpret_cast<const char*>(message[1].data()), message[1].size());
    }
    return reply;
  }

  const std::shared_ptr<tensor::Allocator> allocator_ = tensor::NewHeapAllocator();
  std::shared_ptr<control::ZmqContext> context_ = control::ZmqContext::Create();
  std::unique_ptr<BulkServer> server_;
  std::unique_ptr<control::ClientChannel> client_;
  tensor::Tensor tensor_;
  uint64_t ticket_ = 0;
};

TEST_F(BulkServerTest, ReadsAnyPartOfATensor) {
  const Reply reply = Read(ticket_, 10, 3);
  EXPECT_TRUE(reply.error.ok()) << reply.error;
  EXPECT_EQ(reply.ticket, ticket_);
  EXPECT_EQ(reply.offset, 10u);
  EXPECT_EQ(reply.data, "\x0a\x0b\x0c");
  EXPECT_EQ(reply.checksum, Checksum("\x0a\x0b\x0c", 3));
  EXPECT_EQ(Read(ticket_, 0, 100).data.size(), 100u);
  EXPECT_TRUE(Read(ticket_, 100, 0).error.ok());
}

TEST_F(BulkServerTest, AClientOfTheControllerIsToldWhoListensHereAndWhereToGo) {
  server_->SetClientEndpoint("tcp://10.0.0.1:7000");
  ASSERT_TRUE(client_
                  ->Send({control::EncodeMessage<wire::ClientMessage>(
                      [](wire::ClientMessage::Builder message) { message.setStatus(1); })})
                  .ok());
  control::InputWaiter waiter(0us);
  control::Channel* const channels[] = {client_.get()};
  ASSERT_TRUE(waiter.Wait(channels, {}, Deadline::After(support::kLong)));
  control::Message message;
  ASSERT_TRUE(client_->Receive(&message));
  EXPECT_EQ(lockstep::Message(control::CheckProtocol(
                message[0], control::Protocol::kControllerToClient, "tcp://10.0.0.1:7003")),
            std::string("a worker's bulk socket of Lockstep ") + kBuildVersion +
                " answers at tcp://10.0.0.1:7003, not a controller's client port; the "
                "controller's client port is tcp://10.0.0.1:7000");
}

TEST_F(BulkServerTest, SaysWhetherCommandsHaveComeSinceItsAnswerBefore) {
  const uint64_t other = server_->Publish(tensor_);
  EXPECT_FALSE(Read(ticket_, 0, 1).commands_came);
  server_->NoteCommands();
  EXPECT_TRUE(Read(ticket_, 0, 1).commands_came);
  EXPECT_FALSE(Read(ticket_, 0, 1).commands_came);
  EXPECT_TRUE(Read(other, 0, 1).commands_came);  // of each copy
  EXPECT_FALSE(Read(other + 1, 0, 1).commands_came);
}

TEST_F(BulkServerTest, WritesAnyPartOfATensor) {
  EXPECT_TRUE(Write(ticket_, 98, {"XY"}).error.ok());
  EXPECT_EQ(server_->written().bytes(), 2u);
  EXPECT_EQ(server_->written().seconds().Count(), 1u);
  EXPECT_EQ(tensor_.data_as<char>()[97], 97);
  EXPECT_EQ(tensor_.data_as<char>()[98], 'X');
  EXPECT_EQ(tensor_.data_as<char>()[99], 'Y');
}

TEST_F(BulkServerTest, WhatWasDamagedOnItsWayIsNotWritten) {
  const Reply reply =
      Ask(ticket_, 98, [](auto request) { request.setWrite(Checksum("XZ", 2)); }, {"XY"});
  EXPECT_EQ(reply.error.code(), StatusCode::kDataLoss) << reply.error;
  EXPECT_EQ(reply.offset, 98u);
  EXPECT_EQ(tensor_.data_as<char>()[98], 98);
}

TEST_F(BulkServerTest, NothingOutsideOfTheTensorCanBeReached) {
  for (const auto& [offset, size] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 101}, {100, 1}, {101, 0}, {~uint64_t{0}, 1}, {50, ~uint64_t{0} >> 45}}) {
    EXPECT_EQ(Read(ticket_, offset, size).error.code(), StatusCode::kOutOfRange)
        << offset << ' ' << size;
    EXPECT_TRUE(Read(ticket_, offset, size).data.empty());
  }
  EXPECT_EQ(Write(ticket_, 99, {"XY"}).error.code(), StatusCode::kOutOfRange);
  EXPECT_EQ(Write(ticket_, ~uint64_t{0}, {"XY"}).error.code(), StatusCode::kOutOfRange);
  EXPECT_EQ(tensor_.data_as<char>()[99], 99);
}

TEST_F(BulkServerTest, TensorsOutsideOfHostMemoryAreNotTouched) {
  const uint64_t ticket = server_->Publish(CudaTensor());
  EXPECT_THAT(Message(Read(ticket, 0, 4).error), HasSubstr("cuda:3"));
  EXPECT_THAT(Message(Write(ticket, 0, {"abcd"}).error), HasSubstr("cuda:3"));
}

// A GPU that gives its bytes after a wait, for tests that let it wait.
class SlowGpu final : public tensor::Processor {
 public:
  Device device() const override { return {DeviceType::kCuda, 3}; }
  tensor::Allocator& allocator() override { std::abort(); }
  Status Fill(Buffer, uint64_t) override { return Internal("not asked for"); }
  Status Arange(const tensor::Tensor&, const tensor::Steps&) override {
    return Internal("not asked for");
  }
  Status Cast(const tensor::Tensor&, const tensor::Tensor&) override {
    return Internal("not asked for");
  }
  Status CopyRows(void*, size_t, const void*, size_t, size_t, size_t) override {
    return Internal("not asked for");
  }
  Status FromHost(void*, const void*, size_t) override { return OkStatus(); }
  Status ToHost(void* to, const void*, size_t size_bytes) override {
    is_copying = true;
    while (is_stuck) {
      LOCKSTEP_RETURN_IF_ERROR(interrupted());
      std::this_thread::sleep_for(1ms);
    }
    std::memset(to, 'x', size_bytes);
    return OkStatus();
  }

  std::atomic<bool> is_stuck{false};
  std::atomic<bool> is_copying{false};
  int prepared = 0;
  std::function<Status()> interrupted;
};

TEST_F(BulkServerTest, EachChunkOfAGpuIsPreparedFor) {
  auto gpu = std::make_unique<SlowGpu>();
  SlowGpu* const seen = gpu.get();
  server_->UseGpu(std::move(gpu), [seen](std::function<Status()>) {
    ++seen->prepared;
    return OkStatus();
  });
  const uint64_t ticket = server_->Publish(CudaTensor());
  EXPECT_EQ(Read(ticket, 0, 4).data, "xxxx");
  EXPECT_EQ(Read(ticket, 4, 2).data, "xx");
  EXPECT_EQ(Write(ticket, 0, {"abcd"}).error, OkStatus());
  EXPECT_EQ(seen->prepared, 3);
}

TEST_F(BulkServerTest, ACopyThatAGpuDoesNotEndIsGivenUpWithItsTicket) {
  auto gpu = std::make_unique<SlowGpu>();
  SlowGpu* const seen = gpu.get();
  seen->is_stuck = true;
  server_->UseGpu(std::move(gpu), [seen](std::function<Status()> interrupted) {
    seen->interrupted = std::move(interrupted);
    return OkStatus();
  });
  const uint64_t ticket = server_->Publish(CudaTensor());
  std::thread withdrawing([&] {
    while (!seen->is_copying) std::this_thread::sleep_for(1ms);
    server_->Withdraw(ticket);
  });
  EXPECT_THAT(Message(Read(ticket, 0, 4).error), HasSubstr("the register was freed"));
  withdrawing.join();
  // The next one is not given up for that.
  seen->is_stuck = false;
  EXPECT_EQ(Read(server_->Publish(CudaTensor()), 0, 4).data, "xxxx");
}

TEST_F(BulkServerTest, HugeReadIsRefusedBeforeAnythingIsAllocated) {
  const Reply reply = Read(ticket_, 0, uint64_t{1} << 60);
  EXPECT_EQ(reply.error.code(), StatusCode::kInvalidArgument) << reply.error;
}

TEST_F(BulkServerTest, UnknownAndWithdrawnTicketsAreNotFound) {
  EXPECT_EQ(Read(ticket_ + 1, 0, 1).error.code(), StatusCode::kNotFound);
  server_->Withdraw(ticket_);
  const Reply reply = Read(ticket_, 0, 1);
  EXPECT_EQ(reply.error.code(), StatusCode::kNotFound);
  EXPECT_THAT(Message(reply.error), HasSubstr("freed"));
  server_->Withdraw(ticket_);  // again: nothing happens
}

TEST_F(BulkServerTest, TicketKeepsTheMemoryAlive) {
  const std::weak_ptr<tensor::Storage> storage = tensor_.storage();
  tensor_ = tensor::Tensor();
  EXPECT_EQ(Read(ticket_, 1, 1).data, "\x01");
  server_->Withdraw(ticket_);
  // A request that came before may still hold it for a moment.
  EXPECT_EQ(Read(ticket_, 1, 1).error.code(), StatusCode::kNotFound);
  EXPECT_TRUE(storage.expired());
}

TEST_F(BulkServerTest, TicketsAreNeverUsedAgain) {
  server_->Withdraw(ticket_);
  EXPECT_NE(server_->Publish(tensor_), ticket_);
}

TEST_F(BulkServerTest, NonsenseGetsAnErrorAndTheServerGoesOn) {
  EXPECT_EQ(Write(ticket_, 0, {}).error.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Write(ticket_, 0, {"a", "b"}).error.code(), StatusCode::kInvalidArgument);
  const std::vector<uint64_t> words(8, ~uint64_t{0});
  ASSERT_TRUE(client_->Send({control::Frame::Copy("cut", 3)}).ok());
  EXPECT_EQ(Receive().error.code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(client_->Send({control::Frame::Copy(words.data(), 64)}).ok());
  EXPECT_EQ(Receive().error.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Read(ticket_, 0, 1).error.ok());
}

}  // namespace
}  // namespace lockstep::worker
