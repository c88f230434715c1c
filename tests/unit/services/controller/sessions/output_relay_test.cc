#include "services/controller/sessions/output_relay.h"

#include <gmock/gmock.h>

#include <string>

#include "runtime/base/version.h"
#include "tests/unit/services/controller/parts_fixture.h"

namespace lockstep::controller {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class OutputRelayTest : public PartsFixture {
 protected:
  void SetUp() override {
    StartReady();
    id_ = Open("c", [](auto open) { open.setForwardOutput(true); });
  }
  Status Print(Rank rank, size_t bytes, uint64_t lines = 1) {
    return FromWorker(
        "w" + std::to_string(rank),
        [&](auto message) {
          auto output = message.initOutput();
          output.setSession(id_.value);
          output.setLines(lines);
        },
        std::string(bytes, 'x'));
  }
  SessionId id_;
};

TEST_F(OutputRelayTest, OutputIsPassedOnUnread) {
  ASSERT_EQ(Print(1, 100), OkStatus());
  EXPECT_THAT(ToClient("c"), ElementsAre("output of rank 1, dropped 0 with a body"));
}

TEST_F(OutputRelayTest, ClientThatDidNotAskForItGetsNone) {
  const SessionId other = Open("d");
  id_ = other;
  ASSERT_EQ(Print(1, 100), OkStatus());
  EXPECT_THAT(ToClient("d"), IsEmpty());
}

TEST_F(OutputRelayTest, SizesAreBounded) {
  EXPECT_EQ(Print(1, 0).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Print(1, (size_t{256} << 10) + 1).code(), StatusCode::kInvalidArgument);
}

TEST_F(OutputRelayTest, WhatASlowClientHasNoRoomForIsCountedAndToldBeforeTheNextAnswer) {
  ASSERT_EQ(Batch("c", id_, 1, 9), OkStatus());
  for (int i = 0; i < 17; ++i) ASSERT_EQ(Print(1, size_t{250} << 10, 3), OkStatus());
  EXPECT_EQ(ToClient("c").size(), 16u);
  ReplyAll(id_, 9);
  EXPECT_THAT(ToClient("c"), ElementsAre("output of rank 1, dropped 3", "answer 9 OK"));
}

TEST_F(OutputRelayTest, ClientThatHasTakenItGetsMore) {
  for (int i = 0; i < 17; ++i) ASSERT_EQ(Print(1, size_t{250} << 10, 3), OkStatus());
  Forget();
  ASSERT_EQ(FromClient("c",
                       [&](auto message) {
                         auto taken = message.initOutputTaken();
                         taken.setSession(id_.value);
                         taken.setPosition(session(id_).output.position());
                       }),
            OkStatus());
  EXPECT_THAT(ToClient("c"), ElementsAre("output of rank 1, dropped 3"));
  ASSERT_EQ(Print(1, 100), OkStatus());
  EXPECT_THAT(ToClient("c"), ElementsAre("output of rank 1, dropped 0 with a body"));
}

// It says how far it has come from when it has attached: what the one before it left is not its.
TEST_F(OutputRelayTest, ClientThatAttachesHasTheWholeWindow) {
  id_ = Open("d", [](auto open) {
    open.setForwardOutput(true);
    open.setKeepMillis(60'000);
  });
  for (int i = 0; i < 17; ++i) ASSERT_EQ(Print(1, size_t{250} << 10, 3), OkStatus());
  ASSERT_EQ(
      FromClient("d", [&](auto message) { message.initDetachSession().setSession(id_.value); }),
      OkStatus());
  ASSERT_EQ(FromClient("e",
                       [&](auto message) {
                         auto attach = message.initAttachSession();
                         attach.setMinVersion(kOldestProtocolVersion);
                         attach.setMaxVersion(kProtocolVersion);
                         attach.setSession(id_.value);
                         attach.setToken(session(id_).token);
                         attach.setForwardOutput(true);
                       }),
            OkStatus());
  EXPECT_EQ(session(id_).output.position(), 0u);
  Forget();
  ASSERT_EQ(Print(1, size_t{250} << 10), OkStatus());
  EXPECT_THAT(ToClient("e"), ElementsAre("output of rank 1, dropped 0 with a body"));
}

}  // namespace
}  // namespace lockstep::controller
