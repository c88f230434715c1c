#include "services/controller/sessions/session_takeover.h"

#include <gmock/gmock.h>

#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/base/version.h"
#include "runtime/control/batch.h"
#include "tests/unit/services/controller/parts_fixture.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class SessionTakeoverTest : public PartsFixture {
 protected:
  void Attach(const control::PeerName& client, SessionId id, const std::string& token) {
    EXPECT_EQ(FromClient(client,
                         [&](auto message) {
                           auto attach = message.initAttachSession();
                           attach.setMinVersion(kOldestProtocolVersion);
                           attach.setMaxVersion(kProtocolVersion);
                           attach.setSession(id.value);
                           attach.setToken(token);
                           attach.initHost().setName("other");
                           attach.setPid(8);
                         }),
              OkStatus());
  }
  void Resume(const control::PeerName& client, SessionId id, const std::string& token,
              uint64_t next_command, uint32_t client_number = 1, uint32_t generation = 0) {
    EXPECT_EQ(FromClient(client,
                         [&](auto message) {
                           auto resume = message.initResumeSession();
                           resume.setMinVersion(kOldestProtocolVersion);
                           resume.setMaxVersion(kProtocolVersion);
                           resume.setSession(id.value);
                           resume.setToken(token);
                           resume.setNextCommand(next_command);
                           resume.setClientNumber(client_number);
                           resume.setGeneration(generation);
                           resume.initHost().setName("node");
                           resume.setPid(7);
                         }),
              OkStatus());
  }
  void Detach(const control::PeerName& client, SessionId id) {
    EXPECT_EQ(
        FromClient(client, [&](auto message) { message.initDetachSession().setSession(id.value); }),
        OkStatus());
    Forget();
  }
  SessionId OpenDetached() {
    const SessionId id = Open("c", [](auto open) { open.setKeepMillis(60'000); });
    Detach("c", id);
    return id;
  }
};

TEST_F(SessionTakeoverTest, AnotherClientAttachesWithTheToken) {
  StartReady();
  const SessionId id = OpenDetached();
  Attach("d", id, session(id).token);
  EXPECT_THAT(ToAllWorkers(), ElementsAre("2: session 1.0 adopt client 2"));
  EXPECT_THAT(ToClient("d"), ElementsAre("opened 1"));
  EXPECT_EQ(session(id).client, "d");
  EXPECT_EQ(session(id).pid, 8);
  EXPECT_EQ(Batch("d", id, 1), OkStatus());
}

TEST_F(SessionTakeoverTest, ClientThatAttachesLearnsThatTheSessionHasFailed) {
  StartReady();
  const SessionId id = OpenDetached();
  Fail(1, id, 1, "boom");
  Attach("d", id, session(id).token);
  EXPECT_THAT(ToClient("d"), ElementsAre("opened 1", "failed 1.0 INTERNAL rank 1 command 1: boom"));
}

TEST_F(SessionTakeoverTest, ProcessOfTheClientThatAttachedIsTheOneThatCounts) {
  StartReady();
  const SessionId id = OpenDetached();
  processes_.ended = {7};
  Attach("d", id, session(id).token);
  Forget();
  Pass(5s);
  EXPECT_EQ(session(id).client, "d");
  processes_.ended = {8};
  Pass(1s);
  EXPECT_THAT(Aborts(), ElementsAre("1.0 from 0: its client is gone"));
}

TEST_F(SessionTakeoverTest, WhatIsUnderWayTakesRoomInTheWindowOfTheClientThatAttaches) {
  StartReady();
  const SessionId id = Open("c", [](auto open) { open.setKeepMillis(60'000); });
  ASSERT_EQ(Batch("c", id, 1, 0, 1, 1000), OkStatus());
  ASSERT_EQ(Batch("c", id, 2, 0, 1, 1000), OkStatus());
  Consume(0, id, 2 * control::FlowCost(1000));
  Consume(1, id, control::FlowCost(1000));
  Detach("c", id);
  Attach("d", id, session(id).token);
  EXPECT_THAT(ToClient("d"), ElementsAre("opened 1, " + std::to_string(control::FlowCost(1000)) +
                                         " bytes under way"));
}

// Each keeps to its window; the workers are busy with the first one's work.
TEST_F(SessionTakeoverTest, HonestClientsThatAttachOneAfterAnotherAreNotBroken) {
  options_.flow_window_bytes = size_t{1} << 20;
  options_.max_batch_bytes = size_t{64} << 10;
  StartReady();
  const SessionId id = Open("c0", [](auto open) { open.setKeepMillis(60'000); });
  uint64_t under_way = 0;
  for (int i = 0; i < 30; ++i) {
    const control::PeerName client = "c" + std::to_string(i);
    while (under_way < options_.flow_window_bytes) {
      ASSERT_EQ(Batch(client, id, session(id).commands.next_command(), 0, 1, 64'000), OkStatus());
      under_way += control::FlowCost(64'000);
    }
    ASSERT_TRUE(session(id).broken.ok()) << "client " << i << ": " << session(id).broken.message;
    Detach(client, id);
    const control::PeerName next = "c" + std::to_string(i + 1);
    Attach(next, id, session(id).token);
    const std::vector<std::string> told = ToClient(next);
    ASSERT_EQ(told.size(), 1u);
    under_way = 0;
    (void)std::sscanf(told[0].c_str(), "opened 1, %" SCNu64 " bytes", &under_way);
  }
  EXPECT_LE(session(id).commands.UnderWay(),
            options_.flow_window_bytes + control::FlowCost(64'000));
}

TEST_F(SessionTakeoverTest, WrongTokenIsRefused) {
  StartReady();
  const SessionId id = OpenDetached();
  Attach("d", id, "guessed");
  EXPECT_THAT(ToClient("d"), ElementsAre(StartsWith("refused PERMISSION_DENIED")));
  EXPECT_THAT(ToAllWorkers(), IsEmpty());
}

TEST_F(SessionTakeoverTest, SessionWithAClientIsRefusedAndTheClientNamed) {
  StartReady();
  const SessionId id = Open("c");
  Attach("d", id, session(id).token);
  EXPECT_THAT(ToClient("d"), ElementsAre(AllOf(StartsWith("refused FAILED_PRECONDITION"),
                                               HasSubstr("it has a client, node:7"))));
}

TEST_F(SessionTakeoverTest, SessionThatHasEndedIsGone) {
  StartReady();
  const SessionId id = Open("c");
  const std::string token = session(id).token;
  Close("c", id, 9);
  Attach("d", id, token);
  EXPECT_THAT(ToClient("d"), ElementsAre(StartsWith("refused DATA_LOSS")));
}

TEST_F(SessionTakeoverTest, ClientThatWasReplacedDoesNotGetTheSessionBack) {
  StartReady();
  const SessionId id = OpenDetached();
  const std::string token = session(id).token;
  Attach("d", id, token);
  EXPECT_EQ(FromClient("d", [&](auto message) { message.initDetachSession().setSession(1); }),
            OkStatus());
  Resume("c", id, token, 1, 1);
  EXPECT_THAT(ToClient("c"), ElementsAre(AllOf(StartsWith("refused to resume PERMISSION_DENIED"),
                                               HasSubstr("has attached to it since"))));
}

// A controller that was started again: workers come back with what they have kept.
class RestartTest : public SessionTakeoverTest {
 protected:
  struct Kept {
    Rank rank = 0;
    uint64_t next_command = 1;
    uint32_t generation = 0;
    uint32_t client_number = 1;
    uint64_t epoch = 600;
    uint32_t world_size = 2;
  };
  void ComeBack(const Kept& kept) {
    Hello("w" + std::to_string(kept.rank), kept.rank, [&](wire::Hello::Builder hello) {
      auto resume = hello.initResume();
      resume.setController(400);
      resume.setEpoch(kept.epoch);
      resume.setWorkedEpoch(600);
      resume.setWorldSize(kept.world_size);
      control::SessionRecord record;
      record.id = SessionId(5);
      record.token = "token";
      record.host = "node";
      record.pid = 7;
      record.next_command = kept.next_command;
      record.generation = Generation(kept.generation);
      record.client_number = kept.client_number;
      control::WriteSessionRecord(resume.initSessions(1)[0], record);
    });
  }
  void ComeBackReady(const Kept& first, const Kept& second) {
    Start();
    ComeBack(first);
    ComeBack(second);
    Ready("w0");
    Ready("w1");
  }
  const SessionId id_{5};
};

TEST_F(RestartTest, SessionIsRestoredFailedAndGoesOnAfterAReset) {
  ComeBackReady({.rank = 0, .next_command = 8, .generation = 3}, {.rank = 1, .next_command = 8});
  EXPECT_THAT(ToWorker("w0"), ElementsAre("wait", "welcome rank 0 epoch 601 session 5.3 at 8"));
  EXPECT_THAT(ToWorker("w1"), ElementsAre("welcome rank 1 epoch 601 session 5.3 at 8"));
  Resume("c", id_, "token", 8, 1, 3);
  EXPECT_THAT(ToClient("c"),
              ElementsAre("opened 5", StartsWith("failed 5.3 UNAVAILABLE: the controller was "
                                                 "restarted: what was under way is lost")));
  EXPECT_EQ(metrics_->counts().sessions_resumed.value(), 1u);
  Forget();
  ASSERT_EQ(Reset("c", id_, 4, 9), OkStatus());
  EXPECT_THAT(ToAllWorkers(), ElementsAre("1: session 5.4 reset from 0"));
  ASSERT_EQ(Batch("c", id_, 8), OkStatus());
  EXPECT_THAT(ToAllWorkers(), ElementsAre("2: session 5.4 command 8"));
}

TEST_F(RestartTest, RanksThatAreNotEquallyFarAreDataLoss) {
  ComeBackReady({.rank = 0, .next_command = 8}, {.rank = 1, .next_command = 6});
  Resume("c", id_, "token", 8);
  EXPECT_THAT(ToClient("c"),
              ElementsAre("opened 5", AllOf(StartsWith("failed 5.0 DATA_LOSS"),
                                            HasSubstr("commands 6 to 7 have reached rank 0, but "
                                                      "not, or not all of them, rank 1"))));
}

TEST_F(RestartTest, CommandsThatNoWorkerHasExecutedAreDataLoss) {
  ComeBackReady({.rank = 0, .next_command = 8}, {.rank = 1, .next_command = 8});
  Resume("c", id_, "token", 10);
  EXPECT_THAT(ToClient("c"),
              ElementsAre("opened 5", AllOf(StartsWith("failed 5.0 DATA_LOSS"),
                                            HasSubstr("commands 8 to 9 were executed by no "
                                                      "worker"))));
  EXPECT_EQ(session(id_).commands.next_command(), 10u);
}

TEST_F(RestartTest, ClientCannotBeBehindItsWorkers) {
  ComeBackReady({.rank = 0, .next_command = 8}, {.rank = 1, .next_command = 8});
  Resume("c", id_, "token", 7);
  EXPECT_THAT(ToClient("c"), ElementsAre(StartsWith("refused to resume INVALID_ARGUMENT")));
}

TEST_F(RestartTest, InventoryThatIsOutOfDateIsDiscarded) {
  ComeBackReady({.rank = 0, .next_command = 8}, {.rank = 1, .next_command = 4, .epoch = 599});
  EXPECT_THAT(ToWorker("w1"), ElementsAre("welcome rank 1 epoch 601 session 5.0 at 8 forget"));
  Resume("c", id_, "token", 8);
  EXPECT_EQ(session(id_).replaced.at(1), 8u);
}

TEST_F(RestartTest, WorldsOfAnotherSizeDoNotCount) {
  ComeBackReady({.rank = 0, .next_command = 8, .world_size = 4},
                {.rank = 1, .next_command = 8, .world_size = 4});
  EXPECT_THAT(ToWorker("w1"), ElementsAre("welcome rank 1 epoch 601 forget"));
  EXPECT_THAT(parts().sessions.all(), IsEmpty());
}

TEST_F(RestartTest, SessionBelongsToItsLastClientForOneLease) {
  ComeBackReady({.rank = 0, .next_command = 8}, {.rank = 1, .next_command = 8});
  session(id_).keep_for = 60s;
  session(id_).kept_until = Deadline::At(clock_.now + 60s);
  Attach("d", id_, "token");
  EXPECT_THAT(ToClient("d"), ElementsAre(AllOf(StartsWith("refused FAILED_PRECONDITION"),
                                               HasSubstr("has 10000 ms left to come back"))));
  Pass(10s);
  Attach("d", id_, "token");
  EXPECT_THAT(ToClient("d"), ElementsAre("opened 5", StartsWith("failed 5.0 UNAVAILABLE")));
}

TEST_F(RestartTest, SessionToWhichNoClientComesBackEndsOneLeaseAfterAllAreReady) {
  Start();
  ComeBack({.rank = 0, .next_command = 8});
  Pass(60s);
  ComeBack({.rank = 1, .next_command = 8});
  Ready("w0");
  Ready("w1");
  Pass(9s);
  ASSERT_NE(parts().sessions.Find(id_), nullptr);
  Forget();
  Pass(2s);
  EXPECT_THAT(ToAllWorkers(), ElementsAre("1: session 5.0 close, client lost"));
}

TEST_F(RestartTest, ClientThatHadAttachedAMomentBeforeComesBackAsItself) {
  ComeBackReady({.rank = 0, .next_command = 8}, {.rank = 1, .next_command = 8});
  Forget();
  Resume("d", id_, "token", 8, 2);
  EXPECT_THAT(ToAllWorkers(), ElementsAre("1: session 5.0 adopt client 2"))
      << "no worker had been told";
  Resume("c", id_, "token", 8, 1);
  EXPECT_THAT(ToClient("c"), ElementsAre(StartsWith("refused to resume")));
}

TEST_F(RestartTest, LastAnswerIsGivenAgainToTheClientThatHasTheSession) {
  ComeBackReady({.rank = 0, .next_command = 8}, {.rank = 1, .next_command = 8});
  Resume("c", id_, "token", 8);
  Forget();
  Resume("c", id_, "token", 8);
  EXPECT_THAT(ToClient("c"), ElementsAre("opened 5", StartsWith("failed 5.0 UNAVAILABLE")));
}

TEST_F(RestartTest, LaterSessionsHaveGreaterNumbers) {
  ComeBackReady({.rank = 0, .next_command = 8}, {.rank = 1, .next_command = 8});
  EXPECT_EQ(Open("e"), SessionId(6));
}

}  // namespace
}  // namespace lockstep::controller
