#include "runtime/client/session_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/client/link.h"
#include "runtime/client/session_commands.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/message_codec.h"
#include "schemas/control.capnp.h"
#include "schemas/session.capnp.h"
#include "tests/support/fake_channel.h"
#include "tests/support/patience.h"
#include "tests/unit/runtime/client/fake_controller.h"

namespace lockstep::client {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename Fill>
control::Frame Encode(Fill fill) {
  return control::EncodeMessage<wire::ControllerMessage>(fill);
}

// The thread that hands lines over may have read the error, too, before any call asks for it.
TEST(SessionCoreTest, WhatWasPrintedBeforeAnErrorIsHandedOverBeforeACallReturnsIt) {
  auto channel = std::make_unique<support::FakeChannel>();
  channel->Arrive(
      {Encode([](auto message) { message.initSessionOpened().setLeaseMillis(60'000); })});
  channel->Arrive({Encode([](auto message) { message.initOutput().setRank(2); }),
                   control::EncodeMessage<wire::OutputLines>([](wire::OutputLines::Builder lines) {
                     constexpr char kText[] = "last words";
                     lines.initLines(1)[0].setText(
                         kj::arrayPtr(reinterpret_cast<const kj::byte*>(kText), sizeof kText - 1));
                   })});
  channel->Arrive({Encode([](auto message) {
    control::WriteError(message.initSessionFailed().initError(),
                        control::ErrorOf(Internal("boom")));
  })});
  channel->Arrive({Encode([](auto message) { message.setShutdown("enough"); })});
  OpenRequest request;
  request.timeout = 20s;
  auto link = Link::Open(request, std::move(channel));
  ASSERT_TRUE(link.ok()) << link.status();

  std::atomic<bool> is_handed_over{false};
  SessionCore core(*std::move(link), 1s, [&](const WorkerOutput& output) {
    std::this_thread::sleep_for(100ms);  // a callback takes its time
    is_handed_over = output.text == "last words";
  });
  while (core.Flush().ok()) std::this_thread::yield();
  EXPECT_TRUE(is_handed_over);
}

Status Sync(SessionCore& core) {
  return core.Ask(-1, [](wire::Command::Builder command) { command.setSync(); }).status();
}
StatusOr<DRef> MakeTensor(SessionCore& core) {
  return core.IssueNaming([](wire::Command::Builder command, RegisterId result) {
    command.initEmpty().setResult(result.Packed());
  });
}

// In small steps, so that most commands come right behind a batch and wait for others.
TEST(SessionCoreTest, CommandsThatNobodyWaitsForAreSentAMomentLater) {
  FakeController controller;
  const auto core = controller.Open();
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(Sync(*core), OkStatus());
    const int sent = controller.num_batches;
    ASSERT_TRUE(MakeTensor(*core).ok());
    const Deadline late = Deadline::After(support::kLong);
    while (controller.num_batches == sent) {
      ASSERT_FALSE(late.Expired());
      std::this_thread::yield();
    }
  }
}

// Of a burst that is long enough for commands that do not look at the clock, whichever is the last.
TEST(SessionCoreTest, TheLastOfABurstIsSentToo) {
  FakeController controller;
  const auto core = controller.Open();
  int issued = 0;
  for (int burst = 1; burst <= 20; ++burst) {
    for (int i = 0; i < burst; ++i) ASSERT_TRUE(MakeTensor(*core).ok());
    issued += burst;
    const Deadline late = Deadline::After(support::kLong);
    while (controller.num_made < issued) {
      ASSERT_FALSE(late.Expired());
      std::this_thread::yield();
    }
  }
}

// The controller does not answer: closing the session must not leave anybody waiting.
TEST(SessionCoreTest, AQuestionThatWasNotAnsweredEndsWithTheSession) {
  FakeController controller;
  const auto core = controller.Open();
  controller.answers_batches = false;
  const auto sync = [](wire::Command::Builder command) { command.setSync(); };
  Question asked;
  Question given_up;
  ASSERT_EQ(core->Pose(-1, sync, asked), OkStatus());
  ASSERT_EQ(core->Pose(-1, sync, given_up), OkStatus());
  EXPECT_FALSE(core->IsDecided(asked));
  core->GiveUp(given_up);
  ASSERT_EQ(core->Close(), OkStatus());
  EXPECT_TRUE(core->IsDecided(asked));
  EXPECT_THAT(Message(core->AwaitAnswer(asked).status()), HasSubstr("the session was closed"));
  EXPECT_TRUE(asked.over);
}

// What the thread has yet to issue would never be issued while it waits.
TEST(SessionCoreTest, AQuestionIsNotAwaitedBeforeBothHalvesOfAMessageAreIssued) {
  FakeController controller;
  controller.num_workers = 2;
  controller.num_groups = 2;
  const auto core = controller.Open();
  controller.answers_batches = false;
  const auto issue = [&](OperationKind kind) {
    return IssueCollective(*core, {.kind = kind, .source = *MakeTensor(*core)}, {}).status();
  };
  ASSERT_EQ(issue(OperationKind::kSendToNextGroup), OkStatus());
  Question question;
  const auto sync = [](wire::Command::Builder command) { command.setSync(); };
  ASSERT_EQ(core->Pose(-1, sync, question), OkStatus());
  EXPECT_EQ(core->AwaitAnswer(question).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(question.over);
  ASSERT_EQ(issue(OperationKind::kReceiveFromPreviousGroup), OkStatus());
  controller.AnswerBatches();
  EXPECT_TRUE(core->IsDecided(question));
  EXPECT_EQ(core->AwaitAnswer(question).status(), OkStatus());
}

// The client was one generation ahead: the workers skipped its calls in silence, and its waits ran
// into their deadlines.
TEST(SessionCoreTest, AResetThatIsNotAcknowledgedLeavesTheSessionFailed) {
  FakeController controller;
  const auto core = controller.Open();
  controller.reset_answer = Unavailable("the connection was lost for a moment");
  EXPECT_EQ(core->Reset().code(), StatusCode::kUnavailable);
  const size_t sent = controller.batches.size();
  for (const Status& status : {MakeTensor(*core).status(), Sync(*core), core->Flush()}) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
    EXPECT_THAT(Message(status), AllOf(HasSubstr("Reset() of session 1 was not acknowledged"),
                                       HasSubstr("lost for a moment")));
  }
  EXPECT_EQ(controller.batches.size(), sent) << "nothing was sent";

  controller.reset_answer = OkStatus();
  ASSERT_EQ(core->Reset(), OkStatus());
  EXPECT_THAT(controller.resets, ElementsAre(1, 2));
  EXPECT_EQ(Sync(*core), OkStatus());
  EXPECT_EQ(controller.batches.back().generation, 2u);
}

// They follow the reset on its way.
TEST(SessionCoreTest, WhatOtherThreadsIssueWhileAResetIsUnderWayBelongsToTheNewGeneration) {
  FakeController controller;
  const auto core = controller.Open();
  controller.answers_resets = false;
  std::atomic<bool> is_under_way{false};
  controller.on_reset = [&](uint32_t) { is_under_way = true; };
  std::thread other([&] { EXPECT_EQ(core->Reset(), OkStatus()); });
  while (!is_under_way) std::this_thread::yield();
  EXPECT_EQ(Sync(*core), OkStatus());
  EXPECT_EQ(controller.batches.back().generation, 1u);
  controller.answers_resets = true;
  EXPECT_EQ(core->Reset(), OkStatus());
  other.join();
  EXPECT_EQ(Sync(*core), OkStatus());
  EXPECT_EQ(controller.batches.back().generation, 2u);
}

// The controller has begun the generation, and sends on what belongs to it.
TEST(SessionCoreTest, AResetThatARankIsLateForHasBegun) {
  FakeController controller;
  const auto core = controller.Open();
  controller.reset_answer = DeadlineExceeded("no answer in time: rank 0 executes a long function");
  EXPECT_EQ(core->Reset().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Sync(*core), OkStatus());
  EXPECT_EQ(controller.batches.back().generation, 1u);
}

// The controller does not take batches of a generation that it has not begun.
TEST(SessionCoreTest, NamesThatAreGivenBackBelongToTheLastGenerationThatWasAcknowledged) {
  FakeController controller;
  const auto core = controller.Open();
  ASSERT_EQ(core->Reset(), OkStatus());
  StatusOr<DRef> tensor = MakeTensor(*core);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  ASSERT_EQ(Sync(*core), OkStatus());
  controller.reset_answer = Unavailable("the connection was lost for a moment");
  EXPECT_FALSE(core->Reset().ok());
  *tensor = DRef();
  controller.batches.clear();
  EXPECT_FALSE(core->Reset().ok());
  ASSERT_EQ(controller.batches.size(), 1u);
  EXPECT_THAT(controller.batches[0].commands, ElementsAre(wire::Command::RELEASE));
  EXPECT_EQ(controller.batches[0].generation, 1u);
}

// It may be known before the answer to the reset.
TEST(SessionCoreTest, AFailureOfTheNewGenerationIsNotForgottenWithTheReset) {
  FakeController controller;
  const auto core = controller.Open();
  controller.SayFailed(0, Internal("rank 2 failed"));
  EXPECT_EQ(core->Look().code(), StatusCode::kInternal);
  controller.on_reset = [&](uint32_t generation) {
    controller.SayFailed(generation, Unavailable("rank 1 is lost"));
  };
  EXPECT_EQ(core->Reset(), OkStatus());
  EXPECT_THAT(Message(Sync(*core)), HasSubstr("rank 1 is lost"));
  controller.on_reset = nullptr;
  EXPECT_EQ(core->Reset(), OkStatus());
  EXPECT_EQ(Sync(*core), OkStatus());
}

TEST(SessionCoreTest, AControllerThatIsSilentForALeaseIsLost) {
  FakeController controller;
  controller.lease = 100ms;
  const auto core = controller.Open();
  const Deadline late = Deadline::After(support::kLong);
  while (core->Look().ok() && !late.Expired()) std::this_thread::yield();
  EXPECT_THAT(Message(core->Look()), HasSubstr("silent"));
}

TEST(SessionCoreTest, SoItIsForCommandsInQuickSuccession) {
  FakeController controller;
  controller.lease = 100ms;
  controller.flow_window_bytes = uint64_t{1} << 30;  // it is not waited for
  const auto core = controller.Open();
  const Deadline late = Deadline::After(support::kLong);
  Status status;
  while (status.ok() && !late.Expired()) status = MakeTensor(*core).status();
  EXPECT_THAT(Message(status), HasSubstr("silent"));
}

// So is what could not be sent while the controller was lost. No call comes after it.
TEST(SessionCoreTest, WhatNobodyHasSentIsSentAfterTheNextKeepAlive) {
  FakeController controller;
  controller.lease = 100ms;
  const auto core = controller.Open();
  ASSERT_EQ(core->EndLoan(RegisterId{1, 1}), OkStatus());
  const Deadline late = Deadline::After(support::kLong);
  while (controller.num_batches == 0 && !late.Expired()) std::this_thread::yield();
  EXPECT_EQ(controller.num_batches, 1);
}

// A cluster that is paused as a whole, its client included: a call that comes before the controller
// has answered failed.
TEST(SessionCoreTest, TimeInWhichTheClientWasStoppedIsNotTheControllersSilence) {
  FakeController controller;
  controller.lease = 100ms;
  std::atomic<bool> is_stopped{false};
  controller.on_keep_alive = [&] {  // holds the session's lock: no thread of it goes on
    if (is_stopped.exchange(true)) return;
    const Deadline stopped = Deadline::After(2 * controller.lease);
    while (!stopped.Expired()) std::this_thread::yield();
  };
  const auto core = controller.Open();
  while (!is_stopped) std::this_thread::yield();
  EXPECT_EQ(core->Look(), OkStatus());
}

class BoundProgramsTest : public testing::Test {
 protected:
  BoundProgramsTest() : core_(controller_.Open()) {}

  static plan::EncodedProgram Made(uint64_t key, uint64_t content) {
    return {{key, key}, std::make_shared<const std::vector<uint64_t>>(4, content)};
  }
  // Whether it has travelled as its key.
  bool BindsByKey(const plan::EncodedProgram& program) {
    const auto fill = [&](wire::Command::Builder command, absl::Span<const DRef>, bool is_known) {
      auto binding = command.initBind().initBinding();
      if (is_known) binding.initKnown();
      if (!is_known) binding.initProgram(static_cast<unsigned>(program.size_bytes()));
    };
    const OperationUse use{OperationKind::kAllToAll, false, {0}};
    EXPECT_TRUE(core_->IssueBindIn(core_->generation(), use, program, 1, fill).ok());
    EXPECT_EQ(core_->Flush(), OkStatus());
    return controller_.bindings.back() == wire::Binding::KNOWN;
  }

  FakeController controller_;
  const std::unique_ptr<SessionCore> core_;
};

TEST_F(BoundProgramsTest, AProgramTravelsOnceAndThenAsItsKey) {
  EXPECT_FALSE(BindsByKey(Made(1, 1)));
  EXPECT_FALSE(BindsByKey(Made(2, 2)));
  EXPECT_TRUE(BindsByKey(Made(1, 1)));
  EXPECT_TRUE(BindsByKey(Made(2, 2)));
  EXPECT_FALSE(BindsByKey(Made(1, 3))) << "another one of that key";
  EXPECT_FALSE(BindsByKey(Made(1, 1))) << "which has taken its place";
}

// A rank on which a bind was skipped or failed has not kept what the others have.
TEST_F(BoundProgramsTest, AfterAResetItTravelsAgainWhateverBecameOfTheReset) {
  EXPECT_FALSE(BindsByKey(Made(1, 1)));
  ASSERT_EQ(core_->Reset(), OkStatus());
  EXPECT_FALSE(BindsByKey(Made(1, 1)));
  EXPECT_TRUE(BindsByKey(Made(1, 1)));
  controller_.reset_answer = DeadlineExceeded("rank 0 executes a long function");
  EXPECT_FALSE(core_->Reset().ok());
  EXPECT_FALSE(BindsByKey(Made(1, 1)));
}

TEST_F(BoundProgramsTest, WhatWasNotAppendedIsNotKnown) {
  const plan::EncodedProgram program = Made(1, 1);
  const auto too_large = [](wire::Command::Builder command, absl::Span<const DRef>, bool) {
    command.initBind().initBinding().initProgram(2 << 20);
  };
  const OperationUse use{OperationKind::kAllToAll, false, {0}};
  EXPECT_EQ(core_->IssueBindIn(core_->generation(), use, program, 1, too_large).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(core_->IssueBindIn(Generation(9), use, program, 1, too_large).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_FALSE(BindsByKey(program));
}

// Four ranks in two groups: what SendToNextGroup() and ReceiveFromPreviousGroup() issue.
class UnpairedTest : public testing::Test {
 protected:
  UnpairedTest() {
    controller_.num_workers = 4;
    controller_.num_groups = 2;
    core_ = controller_.Open();
    tensor_ = *MakeTensor(*core_);
    EXPECT_EQ(Sync(*core_), OkStatus());
    controller_.batches.clear();
  }

  Status Send() {
    return IssueCollective(
               *core_,
               {.kind = OperationKind::kSendToNextGroup, .source = tensor_, .gives_result = false},
               {})
        .status();
  }
  Status Receive() {
    return IssueCollective(
               *core_, {.kind = OperationKind::kReceiveFromPreviousGroup, .takes_source = false},
               {})
        .status();
  }
  Status AllReduce(const CollectiveOptions& options = {}) {
    return IssueCollective(*core_, {.kind = OperationKind::kAllReduce, .source = tensor_}, options)
        .status();
  }
  Status SyncRank(Rank rank) {
    return core_
        ->Ask(rank,
              [&](wire::Command::Builder command) {
                command.setOnlyRank(rank);
                command.setSync();
              })
        .status();
  }
  // How many commands have been sent, but for names that were given back.
  size_t Sent() {
    size_t sent = 0;
    EXPECT_EQ(core_->Flush(), OkStatus());
    for (const FakeController::Batch& batch : controller_.batches) {
      for (const auto which : batch.commands) sent += which == wire::Command::RELEASE ? 0 : 1;
    }
    return sent;
  }

  FakeController controller_;
  std::unique_ptr<SessionCore> core_;
  DRef tensor_;
};

// The wait cost the whole collective_timeout.
TEST_F(UnpairedTest, AWaitForARankWhoseSendIsNotReceivedIsRefusedAndFailsNothing) {
  ASSERT_EQ(Send(), OkStatus());
  const Status all = Sync(*core_);
  EXPECT_EQ(all.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(all),
              AllOf(HasSubstr("ranks 0, 1 send to ranks 2, 3 (SendToNextGroup, command 3)"),
                    HasSubstr("issue ReceiveFromPreviousGroup")));
  EXPECT_THAT(Message(SyncRank(1)), HasSubstr("rank 1 sends to rank 3"));
  EXPECT_EQ(SyncRank(2), OkStatus()) << "the last group sends nothing";
  EXPECT_EQ(core_->Name(tensor_, "x").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Sent(), 2u);
  ASSERT_EQ(Receive(), OkStatus());
  EXPECT_EQ(Sync(*core_), OkStatus());
}

// They deadlocked, and the collective was blamed.
TEST_F(UnpairedTest, ACollectiveBetweenTheHalvesThatNeedsBothRanksIsRefused) {
  ASSERT_EQ(Send(), OkStatus());
  const Status status = AllReduce();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("allreduce"), HasSubstr("rank 0 sends to rank 2")));
  EXPECT_EQ(AllReduce({.in_group = true}), OkStatus());
  EXPECT_EQ(Sent(), 2u);
  ASSERT_EQ(Receive(), OkStatus());
  EXPECT_EQ(AllReduce(), OkStatus());
  EXPECT_EQ(Sync(*core_), OkStatus());
}

TEST_F(UnpairedTest, AResetEndsWhatIsUnpaired) {
  ASSERT_EQ(Send(), OkStatus());
  ASSERT_EQ(core_->Reset(), OkStatus());
  EXPECT_EQ(AllReduce(), OkStatus());
  EXPECT_EQ(Sync(*core_), OkStatus());
}

TEST_F(UnpairedTest, WhatFailedMeanwhileIsToldFirst) {
  ASSERT_EQ(Send(), OkStatus());
  controller_.SayFailed(0, Internal("rank 2 failed"));
  EXPECT_THAT(Message(Sync(*core_)), HasSubstr("rank 2 failed"));
}

// It may be about to issue the other half.
TEST_F(UnpairedTest, WaitsOfOtherThreadsAreNotRefused) {
  ASSERT_EQ(Send(), OkStatus());
  std::thread([&] { EXPECT_EQ(Sync(*core_), OkStatus()); }).join();
  EXPECT_EQ(Sync(*core_).code(), StatusCode::kFailedPrecondition);
}

// No thread could issue the other half any more, and the ranks would be held up for all sessions.
TEST_F(UnpairedTest, ASessionIsNotClosedNorDetachedWithASendThatIsNotReceived) {
  ASSERT_EQ(Send(), OkStatus());
  std::thread([&] {
    for (const Status& status : {core_->Close(), core_->Detach()}) {
      EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
      EXPECT_THAT(Message(status), HasSubstr("ranks 0, 1 send to ranks 2, 3"));
    }
  }).join();
  ASSERT_EQ(Receive(), OkStatus());
  EXPECT_EQ(Sync(*core_), OkStatus());
  EXPECT_EQ(core_->Close(), OkStatus());
  EXPECT_THAT(controller_.resets, testing::IsEmpty());
}

// It cannot be refused there: closing alone would wait for what cannot end.
TEST_F(UnpairedTest, TheEndOfTheSessionsObjectEndsWhatIsUnpaired) {
  ASSERT_EQ(Send(), OkStatus());
  core_.reset();
  EXPECT_THAT(controller_.resets, ElementsAre(1));
}

}  // namespace
}  // namespace lockstep::client
