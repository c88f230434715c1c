#include "services/worker/execute/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/host_identity.h"
#include "runtime/base/random.h"
#include "runtime/control/batch.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "runtime/module/builtins.h"
#include "services/worker/bulk/bulk_server.h"
#include "tests/support/child.h"
#include "tests/support/fake_channel.h"
#include "tests/unit/services/worker/fake_communicator.h"

namespace lockstep::worker {
namespace {

using support::Child;
using support::FakeChannel;

using testing::HasSubstr;

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
  void Run(Fill fill, bool of_controller = false) {
    control::BatchWriter writer;
    (void)writer.Add(fill);
    BatchContext batch;
    batch.session = kSession;
    batch.first_command = of_controller ? 0 : ++command_;
    batch.request = RequestId(1);
    executor_->ExecuteBatch(batch, writer.Take());
  }
  void OpenSession(int pid = getpid()) {
    Run(
        [&](wire::Command::Builder command) {
          auto open = command.initOpenSession();
          open.setSession(kSession.value);
          open.setClientPid(pid);
          open.initClientHost().setId(ThisHost().id);
        },
        /*of_controller=*/true);
  }
  void CloseSession(bool client_lost) {
    Run([&](auto command) { command.initCloseSession().setClientLost(client_lost); },
        /*of_controller=*/true);
  }
  void MakeTensor() {
    Run([](auto command) {
      auto empty = command.initEmpty();
      empty.setDtype(wire::DType::UINT8);
      empty.initShape(1).set(0, 1000);
      empty.setResult(kTensor.Packed());
    });
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
    EXPECT_TRUE(control::DecodeMessage<wire::TensorLocation>(
                    channel_.sent().back().at(1),
                    [&](wire::TensorLocation::Reader location) {
                      segment = control::ToString(location.getSegment());
                      return OkStatus();
                    })
                    .ok());
    return segment;
  }
  void Locate() {
    Run([](auto command) { command.initLocate().setRegister(kTensor.Packed()); });
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
  FakeChannel channel_;
  uint64_t command_ = 0;
  std::unique_ptr<Executor> executor_;
};

TEST_F(ExecutorTest, ArgumentsAreNotKeptWhenACallCannotBeMade) {
  OpenSession();
  MakeTensor();
  Run([](auto command) {
    auto get = command.initGetFunction();
    get.setName("lockstep.nop");
    get.setResult(kFunction.Packed());
  });
  Run([](auto command) {
    auto call = command.initCall();
    call.setFunction(kFunction.Packed());
    auto args = call.initArgs(2);
    args[0].setRegister(kTensor.Packed());
    args[1].setRegister(RegisterId{99, 1}.Packed());
  });
  EXPECT_THAT(Message(Failure()), HasSubstr("argument 2"));
  EXPECT_EQ(live(), 1u);
  Release(kTensor);
  EXPECT_EQ(live(), 0u);
}

TEST_F(ExecutorTest, ClosingASessionFreesItsTensors) {
  OpenSession();
  MakeTensor();
  Locate();
  EXPECT_EQ(Segment(), arena_->name());
  CloseSession(/*client_lost=*/false);
  EXPECT_EQ(live(), 0u);
}

TEST_F(ExecutorTest, WhatALostClientLocatedIsKeptWhileItLives) {
  Child client;
  OpenSession(client.pid());
  MakeTensor();
  Locate();
  EXPECT_EQ(Segment(), arena_->name());
  CloseSession(/*client_lost=*/true);
  EXPECT_EQ(live(), 1u);
  EXPECT_EQ(executor_->sessions().lent_memory().descriptors().size(), 1u);
  client.End();
  executor_->sessions().lent_memory().FreeEnded();
  EXPECT_EQ(live(), 0u);
}

class StrangerTest : public ExecutorTest {
 protected:
  Child stranger_;  // made before there is anything to map
};

// Any number can be said to be a client's: the memory would be kept for as long as that one lives.
TEST_F(StrangerTest, NothingIsKeptForAProcessThatDoesNotMapTheMemory) {
  OpenSession(stranger_.pid());
  MakeTensor();
  Locate();
  CloseSession(/*client_lost=*/true);
  EXPECT_EQ(live(), 0u);
  EXPECT_TRUE(executor_->sessions().lent_memory().empty());
}

TEST_F(ExecutorTest, WhatALostClientDidNotLocateIsFreed) {
  Child client;
  OpenSession(client.pid());
  MakeTensor();
  CloseSession(/*client_lost=*/true);
  EXPECT_EQ(live(), 0u);
}

// Nobody could tell when such a client has ended, so it is not let at the memory; nothing is kept.
TEST_F(ExecutorTest, ClientThatCannotBeWatchedCopiesBySocket) {
  for (int pid : {0, -1}) {
    OpenSession(pid);
    MakeTensor();
    Locate();
    EXPECT_EQ(Segment(), "") << pid;
    CloseSession(/*client_lost=*/true);
    EXPECT_EQ(live(), 0u) << pid;
  }
}

// It would be executed by one rank, and the ranks would not keep the same communicators any more.
TEST_F(ExecutorTest, CollectiveForOneRankIsRefusedByAll) {
  OpenSession();
  Run([](auto command) {
    command.setOnlyRank(1);
    command.initCollective().setKind(wire::CollectiveKind::BARRIER);
  });
  EXPECT_EQ(Failure().code(), StatusCode::kInvalidArgument);
}

TEST_F(ExecutorTest, CommandsOfAFailedSessionAreSkippedUntilItsReset) {
  OpenSession();
  Release(RegisterId{});  // of no register: not an error of the session
  EXPECT_TRUE(Failure().ok());
  Run([](auto command) { command.initLocate().setRegister(kTensor.Packed()); });
  EXPECT_EQ(Failure().code(), StatusCode::kNotFound);
  MakeTensor();
  EXPECT_EQ(live(), 0u);
  Run([](auto command) { command.initReset().setGeneration(0); }, /*of_controller=*/true);
  MakeTensor();
  EXPECT_EQ(live(), 1u);
}

// Whatever counts in groups divides by their number.
TEST_F(ExecutorTest, SessionWhoseGroupsDoNotDivideTheWorldIsNotOpened) {
  for (const uint32_t groups : {0u, 3u}) {
    Run(
        [&](wire::Command::Builder command) {
          auto open = command.initOpenSession();
          open.setSession(kSession.value);
          open.setNumGroups(groups);
        },
        /*of_controller=*/true);
    EXPECT_TRUE(executor_->sessions().Inventory().empty()) << groups;
  }
  OpenSession();
  EXPECT_EQ(executor_->sessions().Inventory().size(), 1u);
}

}  // namespace
}  // namespace lockstep::worker
