#include "services/controller/sessions/session_opener.h"

#include <gmock/gmock.h>

#include <string>

#include "runtime/base/version.h"
#include "tests/unit/services/controller/parts_fixture.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SessionOpenerTest : public PartsFixture {
 protected:
  void SayOpen(const control::PeerName& client, uint64_t timeout_millis = 1000,
               uint32_t groups = 1) {
    EXPECT_EQ(FromClient(client,
                         [&](auto message) {
                           auto open = message.initOpenSession();
                           open.setMinVersion(kOldestProtocolVersion);
                           open.setMaxVersion(kProtocolVersion);
                           open.setNumGroups(groups);
                           open.setTimeoutMillis(timeout_millis);
                         }),
              OkStatus());
  }
};

TEST_F(SessionOpenerTest, WorkersAndClientAreToldOfANewSession) {
  StartReady();
  SayOpen("c");
  EXPECT_THAT(ToAllWorkers(), ElementsAre("1: session 1.0 open"));
  EXPECT_THAT(ToClient("c"), ElementsAre("opened 1"));
  EXPECT_EQ(metrics_->counts().sessions_opened.value(), 1u);
}

TEST_F(SessionOpenerTest, ClientWaitsUntilAllWorkersAreReady) {
  Start();
  SayOpen("c");
  Hello("w0", 0);
  Hello("w1", 1);
  Ready("w0");
  EXPECT_THAT(ToClient("c"), IsEmpty());
  Ready("w1");
  EXPECT_THAT(ToClient("c"), ElementsAre("opened 1"));
}

TEST_F(SessionOpenerTest, ClientThatHasWaitedForTooLongIsToldWhatIsMissing) {
  Start();
  Hello("w0", 0);
  SayOpen("c", 1000);
  Pass(900ms);
  EXPECT_THAT(ToClient("c"), IsEmpty());
  Pass(200ms);
  EXPECT_THAT(ToClient("c"),
              ElementsAre(HasSubstr("UNAVAILABLE: the cluster was not ready in time: 0 of 2 "
                                    "workers are ready")));
  Hello("w1", 1);
  Ready("w0");
  Ready("w1");
  EXPECT_THAT(ToClient("c"), IsEmpty());
}

TEST_F(SessionOpenerTest, ClientThatAsksAgainGetsOneSession) {
  Start();
  SayOpen("c");
  SayOpen("c");
  Hello("w0", 0);
  Hello("w1", 1);
  Ready("w0");
  Ready("w1");
  EXPECT_THAT(ToClient("c"), ElementsAre("opened 1"));
}

TEST_F(SessionOpenerTest, GroupsThatDoNotDivideTheWorldAreRefused) {
  StartReady();
  SayOpen("c", 1000, 3);
  EXPECT_THAT(ToClient("c"), ElementsAre(HasSubstr("refused INVALID_ARGUMENT")));
  SayOpen("c", 1000, 2);
  EXPECT_THAT(ToClient("c"), ElementsAre("opened 1"));
}

TEST_F(SessionOpenerTest, ClientOfAnotherProtocolIsRefused) {
  StartReady();
  EXPECT_EQ(FromClient("c",
                       [](auto message) {
                         auto open = message.initOpenSession();
                         open.setMinVersion(kProtocolVersion + 1);
                         open.setMaxVersion(kProtocolVersion + 1);
                       }),
            OkStatus());
  EXPECT_THAT(ToClient("c"), ElementsAre(HasSubstr("speaks protocol versions")));
}

TEST_F(SessionOpenerTest, ClientsThatWaitAreRefusedWhenTheClusterEnds) {
  Start();
  SayOpen("c");
  dispatcher_->EndSessions("enough");
  dispatcher_->Shutdown("enough");
  EXPECT_THAT(ToClient("c"), ElementsAre("refused UNAVAILABLE: the cluster was shut down: enough"));
}

TEST_F(SessionOpenerTest, OneKeyHasNoMoreSessionsThanItMay) {
  options_.max_sessions_per_key = 1;
  gate_ = std::make_shared<FakeGate>();
  sender_ = control::Identity{control::Role::kClient, "trainer", {}};
  StartReady();
  SayOpen("a");
  EXPECT_THAT(ToClient("a"), ElementsAre("opened 1"));
  SayOpen("b");
  EXPECT_THAT(ToClient("b"),
              ElementsAre(HasSubstr("RESOURCE_EXHAUSTED: \"trainer\" has 1 sessions already")));
  sender_->name = "other";
  SayOpen("b");
  EXPECT_THAT(ToClient("b"), ElementsAre("opened 2"));
}

TEST_F(SessionOpenerTest, KeyThatIsRevokedWhileItsClientWaitsOpensNothing) {
  gate_ = std::make_shared<FakeGate>();
  sender_ = control::Identity{control::Role::kClient, "trainer", {}};
  Start();
  SayOpen("c");
  gate_->Revoke("trainer");
  Hello("w0", 0);
  Hello("w1", 1);
  Ready("w0");
  Ready("w1");
  EXPECT_THAT(ToClient("c"), ElementsAre(HasSubstr("refused PERMISSION_DENIED")));
  EXPECT_THAT(parts().sessions.all(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::controller
