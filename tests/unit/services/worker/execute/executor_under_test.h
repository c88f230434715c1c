// An executor with one session, for tests of what it does with commands.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/host_identity.h"
#include "runtime/base/random.h"
#include "runtime/base/shared_segment.h"
#include "runtime/control/batch.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "runtime/module/builtins.h"
#include "services/worker/bulk/bulk_server.h"
#include "services/worker/execute/executor.h"
#include "tests/support/fake_channel.h"
#include "tests/unit/services/worker/fake_communicator.h"

namespace lockstep::worker {

// Rank 0 of a world of two, in which there is no other.
class ExecutorTest : public testing::Test {
 protected:
  static constexpr SessionId kSession{5};
  static constexpr RegisterId kFunction{1, 1};
  static constexpr RegisterId kTensor{2, 1};

  void SetUp() override {
    auto arena = tensor::Arena::Create(
        {.name = std::string(SharedSegment::kNamePrefix) + "executor-" + RandomHex(8),
         .capacity_bytes = size_t{64} << 20});
    ASSERT_TRUE(arena.ok()) << arena.status();
    arena_ = *std::move(arena);
    auto bulk = control::ZmqListen(context_, "inproc://executor-" + RandomHex(4));
    ASSERT_TRUE(bulk.ok()) << bulk.status();
    bulk_ = std::make_unique<BulkServer>(*std::move(bulk));
    membership_.segments = {arena_->name(), "another"};
    membership_.collective_timeout = std::chrono::seconds(20);
    membership_.flow_window_bytes = 1 << 20;
    module::AddBuiltins(functions_);
    executor_ =
        std::make_unique<Executor>(options_, arena_, functions_, *bulk_, activity_, &recorder_);
    executor_->AdoptWelcome(membership_, channel_);
    executor_->SetWorld({&world_});
  }

  // Executes one command of the client (or of the controller).
  template <typename Fill>
  void Run(Fill fill, bool of_controller = false, SessionId session = kSession) {
    control::BatchWriter writer;
    (void)writer.Add(fill);
    BatchContext batch;
    batch.session = session;
    batch.first_command = of_controller ? 0 : ++command_;
    batch.request = RequestId(1);
    executor_->ExecuteBatch(batch, writer.Take());
  }
  void OpenSession(int pid = getpid(), SessionId session = kSession) {
    Run(
        [&](wire::Command::Builder command) {
          auto open = command.initOpenSession();
          open.setSession(session.value);
          open.setClientPid(pid);
          open.initClientHost().setId(ThisHost().id);
        },
        /*of_controller=*/true, session);
  }
  void CloseSession(bool client_lost) {
    Run([&](auto command) { command.initCloseSession().setClientLost(client_lost); },
        /*of_controller=*/true);
  }
  void MakeTensor(int64_t size_bytes = 1000) {
    Run([size_bytes](auto command) {
      auto empty = command.initEmpty();
      empty.setDtype(wire::DType::UINT8);
      empty.initShape(1).set(0, size_bytes);
      empty.setResult(kTensor.Packed());
    });
  }
  void GetFunction(const std::string& name, SessionId session = kSession) {
    Run(
        [&](auto command) {
          auto get = command.initGetFunction();
          get.setName(name);
          get.setResult(kFunction.Packed());
        },
        /*of_controller=*/false, session);
  }
  void Release(RegisterId id) {
    Run([&](auto command) { command.initRelease().initRegisters(1).set(0, id.Packed()); });
  }
  size_t live() const { return arena_->Stats().live_blocks; }

  // The failure that was sent, or OK if there was none.
  Status Failure() {
    Status failure;
    for (const control::Message& message : channel_.sent()) {
      EXPECT_TRUE(control::DecodeMessage<wire::WorkerMessage>(
                      message[0],
                      [&](wire::WorkerMessage::Reader reader) {
                        if (!reader.isFailure()) return OkStatus();
                        failure = control::ReadError(reader.getFailure().getError()).ToStatus();
                        return OkStatus();
                      })
                      .ok());
    }
    return failure;
  }
  // Where the last answer says the tensor is.
  std::string Segment() {
    std::string segment;
    ReadLocation([&](wire::TensorLocation::Reader location) {
      segment = control::ToString(location.getSegment());
    });
    return segment;
  }
  // What it has brought of the tensor.
  std::optional<std::string> LocatedBytes() {
    std::optional<std::string> located;
    ReadLocation([&](wire::TensorLocation::Reader location) {
      if (!location.hasBytes()) return;
      const auto bytes = location.getBytes();
      located.emplace(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
    });
    return located;
  }
  void Locate(wire::BytesWish wish = wire::BytesWish::NEVER) {
    Run([wish](auto command) {
      auto locate = command.initLocate();
      locate.setRegister(kTensor.Packed());
      locate.setBytes(wish);
    });
  }
  template <typename Read>
  void ReadLocation(Read read) {
    EXPECT_TRUE(
        control::DecodeMessage<wire::TensorLocation>(channel_.sent().back().at(1),
                                                     [&](wire::TensorLocation::Reader location) {
                                                       read(location);
                                                       return OkStatus();
                                                     })
            .ok());
  }

  const WorkerOptions options_{};
  Membership membership_;
  std::shared_ptr<control::ZmqContext> context_ = control::ZmqContext::Create();
  std::shared_ptr<tensor::Arena> arena_;
  std::unique_ptr<BulkServer> bulk_;
  module::FunctionTable functions_;
  FakeCommunicator::Log log_;
  FakeCommunicator world_{log_};
  control::ActivityPage activity_;
  Recorder recorder_;
  support::FakeChannel channel_;
  uint64_t command_ = 0;
  std::unique_ptr<Executor> executor_;
};

}  // namespace lockstep::worker
