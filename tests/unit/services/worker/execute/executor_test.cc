#include "services/worker/execute/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/support/child.h"
#include "tests/unit/services/worker/execute/executor_under_test.h"

namespace lockstep::worker {
namespace {

using support::Child;
using testing::HasSubstr;

// Returns kAborted, though its session asks for nothing of the kind.
class GivesUp final : public module::Function {
 public:
  const std::string& name() const override { return name_; }
  Status Call(const module::CallContext& /*context*/, absl::Span<const registers::Value> /*args*/,
              registers::Value* /*result*/) override {
    return Aborted("given up");
  }

 private:
  const std::string name_ = "test.give_up";
};

TEST_F(ExecutorTest, ArgumentsAreNotKeptWhenACallCannotBeMade) {
  OpenSession();
  MakeTensor();
  GetFunction("lockstep.nop");
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

// Without max_session_bytes a session may have the whole arena: that is the setting to raise.
TEST_F(ExecutorTest, ATensorLargerThanTheArenaIsToldWhichSettingLimitsIt) {
  OpenSession();
  Run([&](auto command) {
    auto empty = command.initEmpty();
    empty.setDtype(wire::DType::UINT8);
    empty.initShape(1).set(0, static_cast<int64_t>(options_.arena_bytes) + 1);
    empty.setResult(kTensor.Packed());
  });
  EXPECT_EQ(Failure().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(Failure()), HasSubstr("raise the limit (arena_bytes, "));
  EXPECT_THAT(Message(Failure()), testing::Not(HasSubstr("max_session_bytes")));
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

// The worker could not tell when such a client has ended, so the client is not let at the memory;
// nothing is kept.
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

TEST_F(ExecutorTest, SmallTensorsComeWithTheAnswerIfTheClientWishes) {
  OpenSession();
  Run([](auto command) {
    auto store = command.initStore();
    store.setRegister(kTensor.Packed());
    control::WriteHostTensor(store.initValue().initTensor(),
                             HostTensor::Of<uint8_t>({2}, {{7, 9}}));
  });
  Locate(wire::BytesWish::ALWAYS);
  EXPECT_EQ(LocatedBytes(), "\x07\x09");
  EXPECT_EQ(Segment(), arena_->name());
  Locate(wire::BytesWish::NEVER);
  EXPECT_EQ(LocatedBytes(), std::nullopt);
  Locate(wire::BytesWish::UNLESS_SHARED);
  EXPECT_EQ(LocatedBytes(), std::nullopt) << "the client copies from the memory itself";
}

TEST_F(ExecutorTest, SmallTensorsThatAreNotSharedComeWithTheAnswer) {
  OpenSession(/*pid=*/0);  // cannot be watched
  MakeTensor();
  Locate(wire::BytesWish::UNLESS_SHARED);
  EXPECT_EQ(Segment(), "");
  EXPECT_EQ(LocatedBytes().value_or("").size(), 1000u);
}

TEST_F(ExecutorTest, WhatComesWithAnAnswerIsBounded) {
  OpenSession();
  MakeTensor(wire::MOST_ANSWER_BYTES);
  Locate(wire::BytesWish::ALWAYS);
  EXPECT_EQ(LocatedBytes().value_or("").size(), size_t{wire::MOST_ANSWER_BYTES});
  MakeTensor(wire::MOST_ANSWER_BYTES + 1);
  Locate(wire::BytesWish::ALWAYS);
  EXPECT_EQ(LocatedBytes(), std::nullopt);
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

TEST_F(ExecutorTest, QuestionsToAFailedSessionAreAnsweredWithItsFailure) {
  OpenSession();
  Run([](auto command) { command.initLocate().setRegister(kTensor.Packed()); });
  ASSERT_EQ(Failure().code(), StatusCode::kNotFound);
  size_t sent = channel_.sent().size();
  const auto ask = [&](auto fill) {
    Run(fill);
    StatusCode answer = StatusCode::kOk;
    for (; sent < channel_.sent().size(); ++sent) {
      EXPECT_EQ(control::DecodeMessage<wire::WorkerMessage>(
                    channel_.sent()[sent][0],
                    [&](wire::WorkerMessage::Reader reader) {
                      if (!reader.isReply()) return OkStatus();
                      answer = control::ReadError(reader.getReply().getError()).ToStatus().code();
                      return OkStatus();
                    }),
                OkStatus());
    }
    return answer;
  };
  EXPECT_EQ(ask([](auto command) { command.initFetch().setRegister(kTensor.Packed()); }),
            StatusCode::kNotFound);
  EXPECT_EQ(ask([](auto command) { command.initFindLayout().setTensor(kTensor.Packed()); }),
            StatusCode::kNotFound);
  EXPECT_EQ(ask([](auto command) { command.initGetFunction().setName("lockstep.nop"); }),
            StatusCode::kOk)
      << "it asks for no answer";
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

// Else what comes next would be executed with what the function has left half done, while the other
// ranks have it whole.
TEST_F(ExecutorTest, AFunctionThatGivesUpBelowTheFailingCommandHasFailedThere) {
  ASSERT_TRUE(functions_.Add(std::make_shared<GivesUp>()).ok());
  OpenSession();
  GetFunction("test.give_up");
  executor_->sessions().Abort(
      kSession, {Generation(), 10, control::ErrorOf(Internal("another rank has failed"))});
  Run([](auto command) { command.initCall().setFunction(kFunction.Packed()); });
  const uint64_t given_up = command_;
  MakeTensor();
  EXPECT_EQ(live(), 0u) << "what comes after it is skipped";
  Release(RegisterId{99, 1});
  EXPECT_EQ(Failure().code(), StatusCode::kAborted) << "the other ranks have to be told";
  const auto session = executor_->sessions().Find(kSession);
  EXPECT_EQ(session->SkipsFrom(99), given_up);
  EXPECT_EQ(session->next_command, given_up);
  EXPECT_THAT(session->failure().message, HasSubstr("another rank")) << "the first cause";
}

// The other ranks have executed it, and what follows up to the failing command: so must this one.
TEST_F(ExecutorTest, AWaitBelowTheFailingCommandIsNotGivenUp) {
  OpenSession();
  GetFunction("lockstep.sleep");
  executor_->sessions().Abort(
      kSession, {Generation(), 10, control::ErrorOf(Internal("another rank has failed"))});
  Run([](auto command) {
    auto call = command.initCall();
    call.setFunction(kFunction.Packed());
    call.initArgs(1)[0].setFloat64(0.003);
  });
  MakeTensor();
  EXPECT_EQ(live(), 1u);
  EXPECT_TRUE(Failure().ok()) << Failure();
}

TEST_F(ExecutorTest, WorkThatIsGivenUpForAFailureIsNoFailureOfItsOwn) {
  OpenSession();
  GetFunction("lockstep.sleep");
  std::thread other([this] {
    while (activity_.Now().Describe().find("sleep") == std::string::npos) {
      std::this_thread::yield();
    }
    executor_->sessions().Abort(
        kSession, {Generation(), 2, control::ErrorOf(Internal("another rank has failed"))});
  });
  Run([](auto command) {
    auto call = command.initCall();
    call.setFunction(kFunction.Packed());
    call.initArgs(1)[0].setFloat64(3600);
  });
  other.join();
  EXPECT_TRUE(Failure().ok()) << Failure();
  EXPECT_EQ(executor_->sessions().Find(kSession)->next_command, 2u);
}

// The ticket kept the memory, and led clients to it, though the register held no value any more.
TEST_F(ExecutorTest, ADestinationThatIsDroppedIsTakenFromTheClientThatLocatedIt) {
  OpenSession();
  MakeTensor();
  Locate();
  ASSERT_EQ(live(), 1u);
  log_.outcome = Unavailable("rank 1 was stopped");
  log_.may_still_change = true;
  Run([](auto command) {
    auto collective = command.initCollective();
    collective.setKind(wire::CollectiveKind::ALL_REDUCE);
    collective.setSource(kTensor.Packed());
    collective.setDestination(kTensor.Packed());
  });
  EXPECT_EQ(Failure().code(), StatusCode::kUnavailable);
  EXPECT_EQ(executor_->sessions().Find(kSession)->num_tickets(), 0u);
  EXPECT_EQ(live(), 0u);
}

// What was written over is not there any more either.
TEST_F(ExecutorTest, ARegisterThatIsWrittenAgainIsTakenFromTheClientThatLocatedIt) {
  OpenSession();
  MakeTensor();
  Locate();
  MakeTensor();
  EXPECT_TRUE(Failure().ok()) << Failure();
  EXPECT_EQ(executor_->sessions().Find(kSession)->num_tickets(), 0u);
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
