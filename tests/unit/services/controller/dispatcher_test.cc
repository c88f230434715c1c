#include "services/controller/dispatcher.h"

#include <gmock/gmock.h>

#include <string>

#include "runtime/control/message_codec.h"
#include "schemas/control.capnp.h"
#include "schemas/protocol.capnp.h"
#include "tests/unit/services/controller/parts_fixture.h"

namespace lockstep::controller {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

using DispatcherTest = PartsFixture;

TEST_F(DispatcherTest, WhatCannotBeReadIsRefused) {
  StartReady();
  EXPECT_EQ(dispatcher_->HandleClient("c", nullptr, {}).code(), StatusCode::kInvalidArgument);
  const std::string noise(24, '\xff');
  EXPECT_FALSE(
      dispatcher_->HandleClient("c", nullptr, {control::Frame::Copy(noise.data(), noise.size())})
          .ok());
  const std::string large((size_t{64} << 10) + 8, '\0');
  EXPECT_EQ(
      dispatcher_->HandleClient("c", nullptr, {control::Frame::Copy(large.data(), large.size())})
          .code(),
      StatusCode::kInvalidArgument);
  EXPECT_THAT(ToClient("c"), ElementsAre(StartsWith("refused"), StartsWith("refused"),
                                         HasSubstr("a message's first frame has at most")));
  EXPECT_FALSE(dispatcher_->HandleWorker("w0", {}).ok());
}

TEST_F(DispatcherTest, MessagesOfOtherProtocolsAreAnsweredWithWhoListens) {
  StartReady();
  EXPECT_EQ(dispatcher_
                ->HandleClient("w9", nullptr,
                               {control::EncodeMessage<wire::WorkerMessage>(
                                   [](auto message) { message.initHello(); })})
                .code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(dispatcher_
                ->HandleWorker("c", {control::EncodeMessage<wire::ClientMessage>(
                                        [](auto message) { message.setStatus(1); })})
                .code(),
            StatusCode::kFailedPrecondition);
  EXPECT_THAT(Journal(),
              ElementsAre(AllOf(StartsWith("w9: a controller's client port of Lockstep "),
                                HasSubstr("the controller's worker port is tcp://controller:2")),
                          AllOf(StartsWith("c: a controller's worker port of Lockstep "),
                                HasSubstr("the controller's client port is tcp://controller:1"))));
}

// Two listeners would answer each other for ever.
TEST_F(DispatcherTest, WhatAnswersAMessageOfAnotherProtocolIsNotAnswered) {
  StartReady();
  const control::Frame answer = control::EncodeMessage<wire::WrongProtocol>(
      [](auto message) { message.setSpeaker("another listener"); });
  EXPECT_FALSE(dispatcher_->HandleWorker("x", {answer}).ok());
  EXPECT_THAT(Journal(), testing::IsEmpty());
}

TEST_F(DispatcherTest, ShutdownIsAnsweredAndAskedFor) {
  StartReady();
  ASSERT_EQ(FromClient("c", [](auto message) { message.setShutdown("enough"); }), OkStatus());
  EXPECT_THAT(ToClient("c"), ElementsAre("shutdown: enough"));
  EXPECT_THAT(shutdowns_, ElementsAre("enough"));
}

TEST_F(DispatcherTest, SessionsClientsHearOfTheEndBeforeAnythingIsWaitedFor) {
  StartReady();
  const SessionId id = Open("c");
  ASSERT_EQ(Batch("c", id, 1, 9), OkStatus());
  Forget();
  dispatcher_->EndSessions("enough");
  EXPECT_THAT(Journal(), ElementsAre("c: shutdown: enough",
                                     "c: answer 9 UNAVAILABLE: the cluster was shut down: enough",
                                     "abort 1.0 from 0: the cluster was shut down: enough"));
  dispatcher_->Shutdown("enough");
  EXPECT_THAT(Journal(), ElementsAre("w0: shutdown: enough", "w1: shutdown: enough"));
}

TEST_F(DispatcherTest, OnlyAnOperatorMayStopTheCluster) {
  StartReady();
  sender_ = control::Identity{control::Role::kClient, "trainer", {}};
  EXPECT_EQ(FromClient("c", [](auto message) { message.setShutdown("enough"); }).code(),
            StatusCode::kPermissionDenied);
  EXPECT_THAT(shutdowns_, testing::IsEmpty());
  sender_->role = control::Role::kReader;
  EXPECT_EQ(FromClient("c", [](auto message) { message.setStatus(1); }), OkStatus());
}

}  // namespace
}  // namespace lockstep::controller
