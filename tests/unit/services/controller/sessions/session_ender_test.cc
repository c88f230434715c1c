#include "services/controller/sessions/session_ender.h"

#include <gmock/gmock.h>

#include "tests/unit/services/controller/parts_fixture.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr uint64_t kEnd = SessionEntry::kEndRequest.value;

class SessionEnderTest : public PartsFixture {
 protected:
  void SetUp() override {
    StartReady();
    id_ = Open("c");
  }
  SessionId id_;
};

TEST_F(SessionEnderTest, CloseIsAnsweredWhenAllRanksHaveExecutedIt) {
  Close("c", id_, 9);
  EXPECT_THAT(ToAllWorkers(), ElementsAre("2: session 1.0 close"));
  Reply(0, id_, kEnd);
  EXPECT_THAT(ToClient("c"), IsEmpty());
  EXPECT_NE(parts().sessions.Find(id_), nullptr);
  Reply(1, id_, kEnd);
  EXPECT_THAT(ToClient("c"), ElementsAre("answer 9 OK"));
  EXPECT_EQ(parts().sessions.Find(id_), nullptr);
}

// Else a rank that is behind would hold up all other sessions until it has executed what comes
// before the failing command.
TEST_F(SessionEnderTest, WorkOfEarlierGenerationsEndsWithTheSession) {
  Fail(1, id_, 3, "boom");
  ASSERT_EQ(Reset("c", id_, 1, 9), OkStatus());
  Close("c", id_, 10, 1000);
  Forget();
  Pass(std::chrono::milliseconds(1001));
  EXPECT_THAT(Aborts(), ElementsAre(HasSubstr("1.1 from 0: session 1 was not closed in time"),
                                    HasSubstr("1.0 from 0: session 1 was not closed in time")));
}

class EndByOthersTest : public SessionEnderTest {
 protected:
  Status End(SessionId id) {
    return FromClient("other", [&](auto message) {
      auto end = message.initEndSession();
      end.setSession(id.value);
      end.setRequest(5);
      end.setReason("it hangs");
    });
  }
  static control::Identity Of(control::Role role, const std::string& name, uint8_t key) {
    control::Identity identity{role, name, {}};
    identity.key = control::PublicKey{{key}};
    return identity;
  }
};

TEST_F(EndByOthersTest, WorkIsAbortedAndTheClientToldWhy) {
  ASSERT_EQ(End(id_), OkStatus());
  EXPECT_THAT(Aborts(), ElementsAre("1.0 from 0: session 1 was ended: it hangs"));
  EXPECT_THAT(ToClient("c"), ElementsAre(HasSubstr("session 1 was ended: it hangs")));
  EXPECT_THAT(ToClient("other"), ElementsAre("answer 5 OK"));
  Reply(0, id_, kEnd);
  Reply(1, id_, kEnd);
  EXPECT_EQ(parts().sessions.Find(id_), nullptr);
}

TEST_F(EndByOthersTest, ASessionThatIsNotThereIsNotFound) {
  ASSERT_EQ(End(SessionId(9)), OkStatus());
  EXPECT_THAT(ToClient("other"), ElementsAre(StartsWith("answer 5 NOT_FOUND")));
}

TEST_F(EndByOthersTest, OneThatIsBeingClosedIsAborted) {
  Close("c", id_, 9);
  ASSERT_EQ(End(id_), OkStatus());
  EXPECT_THAT(Aborts(), ElementsAre(HasSubstr("it hangs")));
  EXPECT_THAT(ToClient("c"), ElementsAre(StartsWith("answer 9 ABORTED")));
}

TEST_F(EndByOthersTest, OnlyTheOwnerAndAnOperatorMay) {
  session(id_).owner = Of(control::Role::kClient, "trainer", 1);
  sender_ = Of(control::Role::kReader, "viewer", 2);
  EXPECT_EQ(End(id_).code(), StatusCode::kPermissionDenied);
  sender_ = Of(control::Role::kClient, "stranger", 3);
  ASSERT_EQ(End(id_), OkStatus());
  EXPECT_THAT(ToClient("other"), testing::Contains(StartsWith("answer 5 PERMISSION_DENIED")));
  EXPECT_FALSE(session(id_).ending.has_value());
  sender_ = Of(control::Role::kClient, "trainer", 1);
  ASSERT_EQ(End(id_), OkStatus());
  EXPECT_TRUE(session(id_).ending.has_value());
  const SessionId second = Open("d");
  sender_ = Of(control::Role::kOperator, "operator", 4);
  ASSERT_EQ(End(second), OkStatus());
  EXPECT_TRUE(session(second).ending.has_value());
}

TEST_F(SessionEnderTest, CloseTellsTheFirstErrorOfARank) {
  Close("c", id_, 9);
  Reply(1, id_, kEnd, StatusCode::kInternal);
  Reply(0, id_, kEnd, StatusCode::kAborted);
  EXPECT_THAT(ToClient("c"), ElementsAre("answer 9 INTERNAL rank 1: of rank 1"));
}

TEST_F(SessionEnderTest, LateCloseIsAnsweredAtItsDeadlineAndItsWorkAborted) {
  Close("c", id_, 9, 1000);
  Reply(0, id_, kEnd);
  Pass(900ms);
  EXPECT_THAT(ToClient("c"), IsEmpty());
  Pass(200ms);
  EXPECT_THAT(ToClient("c"), ElementsAre(StartsWith(
                                 "answer 9 DEADLINE_EXCEEDED: session 1 was not closed in time: "
                                 "rank 1 had not finished its work")));
  EXPECT_THAT(Aborts(), ElementsAre(StartsWith("1.0 from 0: session 1 was not closed in time")));
  Pass(1s);
  EXPECT_THAT(Aborts(), IsEmpty()) << "once";
  Reply(1, id_, kEnd);
  EXPECT_EQ(parts().sessions.Find(id_), nullptr);
  EXPECT_THAT(ToClient("c"), IsEmpty()) << "it was answered";
}

TEST_F(SessionEnderTest, LostWorkersAreNotWaitedFor) {
  Lose(1, "killed");
  Forget();
  Close("c", id_, 9);
  Reply(0, id_, kEnd);
  EXPECT_THAT(ToClient("c"), ElementsAre("answer 9 OK"));
}

TEST_F(SessionEnderTest, LossWhileItIsClosedIsTheAnswer) {
  Close("c", id_, 9);
  Reply(0, id_, kEnd);
  Forget();
  Lose(1, "killed");
  EXPECT_THAT(ToClient("c"), testing::Contains(HasSubstr("answer 9 UNAVAILABLE rank 1")));
  EXPECT_EQ(parts().sessions.Find(id_), nullptr);
}

TEST_F(SessionEnderTest, CloseAfterCommandsThatWereLostSaysSo) {
  ASSERT_EQ(FromClient("c",
                       [&](auto message) {
                         auto close = message.initCloseSession();
                         close.setSession(id_.value);
                         close.setRequest(9);
                         close.setTimeoutMillis(1000);
                         close.setNextCommand(4);
                       }),
            OkStatus());
  Forget();
  ReplyAll(id_, kEnd);
  EXPECT_THAT(
      ToClient("c"),
      ElementsAre(StartsWith("answer 9 DATA_LOSS: commands 1 to 3 of session 1 were lost")));
}

TEST_F(SessionEnderTest, SessionThatIsBeingClosedTakesNothingMore) {
  Close("c", id_, 9);
  Forget();
  EXPECT_EQ(Batch("c", id_, 1), OkStatus());
  EXPECT_THAT(ToClient("c"), IsEmpty()) << "names that it gives back are free soon enough";
  EXPECT_EQ(Batch("c", id_, 1, 10), OkStatus());
  EXPECT_THAT(ToClient("c"),
              ElementsAre("answer 10 FAILED_PRECONDITION: session 1 is being closed"));
  EXPECT_EQ(Reset("c", id_, 1, 11).code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(ToAllWorkers(), IsEmpty());
}

TEST_F(SessionEnderTest, SessionThatIsNotOpenCannotBeClosed) {
  Close("c", SessionId(99), 9);
  EXPECT_THAT(ToClient("c"), ElementsAre(StartsWith("answer 9 NOT_FOUND")));
}

TEST_F(SessionEnderTest, RequestsThatAreLeftAreAnsweredWhenItHasEnded) {
  ASSERT_EQ(Batch("c", id_, 1, 8), OkStatus());
  Close("c", id_, 9);
  Forget();
  ReplyAll(id_, kEnd);
  EXPECT_THAT(ToClient("c"), ElementsAre("answer 8 ABORTED: session 1 was closed", "answer 9 OK"));
}

TEST_F(SessionEnderTest, AllSessionsEndWithTheClusterAndClientsKnowWhyBeforeTheAnswers) {
  ASSERT_EQ(Batch("c", id_, 1, 8), OkStatus());
  const SessionId closing = Open("d");
  Close("d", closing, 9);
  Forget();
  dispatcher_->EndSessions("enough");
  dispatcher_->Shutdown("enough");
  EXPECT_THAT(
      ToClient("c"),
      ElementsAre("shutdown: enough", "answer 8 UNAVAILABLE: the cluster was shut down: enough"));
  EXPECT_THAT(
      ToClient("d"),
      ElementsAre("shutdown: enough", "answer 9 UNAVAILABLE: the cluster was shut down: enough"));
  EXPECT_THAT(ToWorker("w0"), ElementsAre("shutdown: enough"));
  EXPECT_THAT(ToWorker("w1"), ElementsAre("shutdown: enough"));
}

class RevokedKeysTest : public PartsFixture {
 protected:
  void SetUp() override {
    gate_ = std::make_shared<FakeGate>();
    StartReady();
    sender_ = control::Identity{control::Role::kClient, "trainer", {}};
    id_ = Open("c");
  }
  SessionId id_;
};

TEST_F(RevokedKeysTest, SessionsOfARevokedKeyEndAndItsClientIsToldWhy) {
  sender_->name = "other";
  const SessionId other = Open("d");
  ASSERT_EQ(Batch("c", id_, 1, 8), OkStatus());
  gate_->Revoke("trainer");
  Forget();
  Pass(300ms);
  EXPECT_THAT(ToClient("c"), ElementsAre(HasSubstr("refused PERMISSION_DENIED: the key")));
  EXPECT_THAT(Aborts(), ElementsAre(HasSubstr("1.0 from 0: the key")));
  EXPECT_THAT(ToAllWorkers(), ElementsAre(HasSubstr("session 1.0 close, client lost")));
  EXPECT_THAT(ToClient("d"), IsEmpty());
  EXPECT_FALSE(session(other).ending.has_value());
}

TEST_F(RevokedKeysTest, SessionWithoutAClientEndsToo) {
  const SessionId kept = Open("d", [](auto open) { open.setKeepMillis(60'000); });
  session(kept).KeepWithoutClient(Deadline::At(clock_.now + 60s));
  gate_->Revoke("trainer");
  Pass(300ms);
  EXPECT_TRUE(session(kept).ending.has_value());
}

TEST_F(RevokedKeysTest, RoleOfAReaderOpensNoSession) {
  sender_->role = control::Role::kReader;
  EXPECT_EQ(Batch("c", id_, 1).code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(ToClient("c"), testing::Contains(HasSubstr("refused PERMISSION_DENIED")));
}

}  // namespace
}  // namespace lockstep::controller
