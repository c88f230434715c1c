#include "services/controller/sessions/session_leases.h"

#include <gmock/gmock.h>

#include "tests/unit/services/controller/parts_fixture.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class SessionLeasesTest : public PartsFixture {
 protected:
  void SetUp() override { StartReady(); }

  void KeepAlive(SessionId id, uint64_t sent, bool tell_again = false) {
    ASSERT_EQ(FromClient("c",
                         [&](auto message) {
                           auto alive = message.initKeepAlive();
                           alive.setSession(id.value);
                           alive.setSent(sent);
                           alive.setTellAgain(tell_again);
                         }),
              OkStatus());
  }
  SessionId OpenKept(std::chrono::milliseconds keep_for) {
    return Open("c",
                [&](auto open) { open.setKeepMillis(static_cast<uint64_t>(keep_for.count())); });
  }
  Status Detach(SessionId id, uint64_t request) {
    return FromClient("c", [&](auto message) {
      auto detach = message.initDetachSession();
      detach.setSession(id.value);
      detach.setRequest(request);
    });
  }
};

TEST_F(SessionLeasesTest, KeepAlivesAreAnsweredAndRenewTheLease) {
  const SessionId id = Open("c");
  for (int i = 0; i < 3; ++i) {
    Pass(9s);
    KeepAlive(id, 0);
    EXPECT_THAT(ToClient("c"), ElementsAre("alive, has sent 1"));
  }
  EXPECT_TRUE(session(id).failure.ok());
}

TEST_F(SessionLeasesTest, ClientLearnsThatItsMessagesWereLost) {
  const SessionId id = Open("c");
  ASSERT_EQ(Batch("c", id, 1), OkStatus());
  KeepAlive(id, 1);
  EXPECT_THAT(ToClient("c"), ElementsAre("alive, has sent 1"));
  KeepAlive(id, 3);
  EXPECT_THAT(ToClient("c"), ElementsAre("alive, has sent 1, misses some"));
  KeepAlive(id, 3);
  EXPECT_THAT(ToClient("c"), ElementsAre("alive, has sent 1")) << "it is told once";
}

TEST_F(SessionLeasesTest, WhatStandsIsToldAgain) {
  const SessionId id = Open("c");
  Fail(1, id, 1, "boom");
  Forget();
  KeepAlive(id, 0, true);
  EXPECT_THAT(ToClient("c"), ElementsAre("failed 1.0 INTERNAL rank 1 command 1: boom", "credit 0",
                                         "alive, has sent 4"));
}

TEST_F(SessionLeasesTest, SessionOfASilentClientIsAbortedAndClosed) {
  const SessionId id = Open("c");
  Pass(9900ms);
  EXPECT_THAT(ToAllWorkers(), IsEmpty());
  Pass(500ms);
  EXPECT_THAT(Aborts(), ElementsAre("1.0 from 0: its client is gone"));
  EXPECT_THAT(ToAllWorkers(), ElementsAre("2: session 1.0 close, client lost"));
  ReplyAll(id, SessionEntry::kEndRequest.value);
  EXPECT_EQ(parts().sessions.Find(id), nullptr);
}

TEST_F(SessionLeasesTest, WorkOfAClientWhoseProcessHasEndedIsAbortedSoon) {
  const SessionId id = Open("c");
  const SessionId other = Open("d", [](auto open) { open.setPid(8); });
  ASSERT_EQ(Batch("c", id, 1), OkStatus());
  processes_.ended = {7};
  Forget();
  Pass(500ms);  // as docs/failures.md says
  EXPECT_THAT(Aborts(), ElementsAre("1.0 from 0: its client is gone"));
  EXPECT_THAT(ToAllWorkers(), ElementsAre("4: session 1.0 close, client lost"));
  EXPECT_TRUE(session(other).failure.ok());
  EXPECT_FALSE(session(other).ending.has_value());
}

TEST_F(SessionLeasesTest, LastWordsOfAnEndedProcessAreHeard) {
  const SessionId id = OpenKept(60s);
  processes_.ended = {7};
  dispatcher_->HandleTimers();
  ASSERT_TRUE(session(id).ended_at.has_value());
  ASSERT_EQ(Batch("c", id, 1), OkStatus());
  Pass(100ms);
  ASSERT_EQ(Detach(id, 9), OkStatus());
  Forget();
  Pass(30s);
  EXPECT_THAT(Journal(), IsEmpty()) << "it has left the session on purpose";
  EXPECT_TRUE(session(id).failure.ok());
}

TEST_F(SessionLeasesTest, ClientThatHasClosedItsSessionNeedNotWaitForTheEndOfItsWork) {
  const SessionId id = Open("c");
  Close("c", id, 9, 60'000);
  processes_.ended = {7};
  Forget();
  Pass(5s);
  EXPECT_THAT(Journal(), IsEmpty());
}

TEST_F(SessionLeasesTest, SessionThatIsKeptOutlivesTheProcessOfItsClientButFails) {
  const SessionId id = OpenKept(60s);
  processes_.ended = {7};
  Pass(1s);
  EXPECT_THAT(Aborts(), ElementsAre("1.0 from 0: its client is gone"));
  EXPECT_THAT(ToAllWorkers(), IsEmpty());
  EXPECT_TRUE(session(id).client.empty());
  EXPECT_TRUE(session(id).client_lost);
}

// Of another host, or another container.
TEST_F(SessionLeasesTest, ProcessThatCannotBeWatchedIsSilentForItsLease) {
  const SessionId id = Open("c", [](auto open) { open.initHost().setId("elsewhere"); });
  processes_.ended = {7};
  Pass(9900ms);
  EXPECT_FALSE(session(id).ending.has_value());
}

TEST_F(SessionLeasesTest, TimeInWhichNothingCouldBeHeardIsNoSilence) {
  const SessionId id = Open("c");
  clock_.now += 1h;  // the process was stopped
  dispatcher_->HandleTimers();
  Pass(9900ms);
  EXPECT_THAT(ToAllWorkers(), IsEmpty());
  EXPECT_TRUE(session(id).failure.ok());
}

TEST_F(SessionLeasesTest, SessionThatIsKeptOutlivesItsSilentClientButFails) {
  const SessionId id = OpenKept(60s);
  Pass(10500ms);
  EXPECT_THAT(Aborts(), ElementsAre("1.0 from 0: its client is gone"));
  EXPECT_THAT(ToAllWorkers(), IsEmpty());
  EXPECT_TRUE(session(id).client.empty());
  EXPECT_TRUE(session(id).client_lost);
  Pass(59s);
  EXPECT_THAT(ToAllWorkers(), IsEmpty());
  Pass(2s);
  EXPECT_THAT(ToAllWorkers(), ElementsAre("2: session 1.0 close, client lost"));
}

TEST_F(SessionLeasesTest, ClientThatDetachesLeavesTheSessionWorking) {
  const SessionId id = OpenKept(60s);
  ASSERT_EQ(Detach(id, 9), OkStatus());
  EXPECT_THAT(ToClient("c"), ElementsAre("answer 9 OK"));
  EXPECT_TRUE(session(id).client.empty());
  EXPECT_FALSE(session(id).client_lost);
  EXPECT_TRUE(session(id).failure.ok());
  EXPECT_EQ(Batch("c", id, 1).code(), StatusCode::kNotFound) << "it is not its session any more";
  Pass(61s);
  EXPECT_THAT(ToAllWorkers(), ElementsAre("2: session 1.0 close, client lost"));
}

TEST_F(SessionLeasesTest, SessionThatIsNotKeptCannotBeLeft) {
  const SessionId id = Open("c");
  ASSERT_EQ(Detach(id, 9), OkStatus());
  EXPECT_THAT(ToClient("c"), ElementsAre(StartsWith("answer 9 FAILED_PRECONDITION")));
  EXPECT_EQ(session(id).client, "c");
}

TEST_F(SessionLeasesTest, SessionWithoutAClientWaitsForAWorldThatIsNotWhole) {
  const SessionId id = OpenKept(20s);
  ASSERT_EQ(Detach(id, 9), OkStatus());
  Lose(1, "killed");
  Pass(60s);
  EXPECT_NE(parts().sessions.Find(id), nullptr) << "no client could have come back";
  Hello("w2", 1);
  Ready("w0");
  Ready("w2");
  Forget();
  Pass(9s);
  EXPECT_THAT(ToAllWorkers(), IsEmpty()) << "it has a lease from when all are ready";
  Pass(2s);
  EXPECT_THAT(ToAllWorkers(), ElementsAre(HasSubstr("close, client lost")));
}

TEST_F(SessionLeasesTest, TimeForWhichASessionIsKeptDoesNotEndItWhileTheWorldIsNotWhole) {
  const SessionId id = OpenKept(20s);
  ASSERT_EQ(Detach(id, 9), OkStatus());
  Lose(1, "killed");
  Forget();
  Pass(60s);
  EXPECT_THAT(Journal(), IsEmpty()) << "no client could have come back";
  EXPECT_FALSE(session(id).ending.has_value());
  Hello("w2", 1);
  Ready("w0");
  Forget();
  Pass(60s);
  EXPECT_THAT(Journal(), IsEmpty()) << "one has yet to connect";
  EXPECT_FALSE(session(id).ending.has_value());
}

TEST_F(SessionLeasesTest, SilenceWhileItIsClosedAbortsWhatIsLeft) {
  const SessionId id = Open("c");
  Close("c", id, 9, 60'000);
  Forget();
  Pass(10500ms);
  EXPECT_THAT(Aborts(), ElementsAre("1.0 from 0: its client is gone"));
  EXPECT_THAT(ToClient("c"), ElementsAre("answer 9 ABORTED: its client is gone"));
}

}  // namespace
}  // namespace lockstep::controller
