// What goes wrong between hosts: wires that are cut, and mended, or not; hosts that vanish, or come
// late; packets that are lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "tests/integration/hosts/hosts_fixture.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class FaultsTest : public HostsFixture {
 protected:
  void SetUp() override {
    HostsFixture::SetUp();
    if (IsSkipped()) return;
    NetnsClusterOptions hosts;
    // Longer than any wait on a busy machine.
    hosts.controller.worker_timeout = 3s;
    cluster_ = std::make_unique<NetnsCluster>(hosts);
    ASSERT_EQ(cluster_->Start(), OkStatus());
    SessionOptions options;
    options.timeout = 30s;
    auto session = cluster_->Connect(options);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = std::make_unique<Session>(*std::move(session));
    ASSERT_EQ(Work(), OkStatus());
    epoch_ = cluster_->Ask()->epoch;
  }

  // A few collectives, and that they are right.
  Status Work() {
    for (const int64_t elements : {5, 200'000}) {
      LOCKSTEP_ASSIGN_OR_RETURN(const DRef sum, SumOfRanks(*session_, elements));
      LOCKSTEP_RETURN_IF_ERROR(CheckSum(*session_, sum, cluster_->workers()));
    }
    return session_->SyncAll();
  }
  // Until it fails: the failure, which came in time.
  Status WorkUntilItFails() {
    const auto begin = Deadline::Clock::now();
    Status status;
    while (status.ok() && Deadline::Clock::now() - begin < 20s) status = Work();
    // The silence of a worker is noticed within three.
    EXPECT_LT(Deadline::Clock::now() - begin, 10s) << status;
    return status;
  }
  // Until the world is another one than it was when the test began.
  void AwaitLoss(Rank rank) {
    const Deadline patience = Deadline::After(10s);
    while (!patience.Expired()) {
      const auto status = cluster_->Ask();
      ASSERT_TRUE(status.ok()) << status.status();
      if (status->epoch != epoch_ ||
          status->workers[static_cast<size_t>(rank)].state == WorkerState::kLost)
        return;
      std::this_thread::sleep_for(10ms);
    }
    FAIL() << "rank " << rank << " is not lost";
  }
  // After a loss: new workers on `host`, and the session goes on.
  void ExpectRecovery(int host) {
    EXPECT_EQ(cluster_->StartWorkersOf(host), OkStatus());
    ASSERT_EQ(session_->AwaitWorkers(30s), OkStatus());
    ASSERT_EQ(session_->Reset(), OkStatus());
    EXPECT_EQ(Work(), OkStatus());
  }

  std::unique_ptr<NetnsCluster> cluster_;
  std::unique_ptr<Session> session_;
  Epoch epoch_;
};

TEST_F(FaultsTest, AHostThatVanishesIsNamedAndComesBackUnderItsRanks) {
  std::thread cutter([&] {
    std::this_thread::sleep_for(100ms);
    cluster_->hosts().Kill(1);
  });
  const Status status = WorkUntilItFails();
  cutter.join();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status),
              AllOf(AnyOf(HasSubstr("rank 2"), HasSubstr("rank 3")), HasSubstr("host1")));
  cluster_->hosts().Boot(1);
  ExpectRecovery(1);
}

TEST_F(FaultsTest, AWireThatIsMendedInTimeIsOnlyADelay) {
  std::thread cutter([&] {
    std::this_thread::sleep_for(50ms);
    cluster_->hosts().Isolate(1);
    std::this_thread::sleep_for(600ms);
    cluster_->hosts().Mend(1);
  });
  const auto begin = Deadline::Clock::now();
  while (Deadline::Clock::now() - begin < 1500ms) ASSERT_EQ(Work(), OkStatus());
  cutter.join();
  EXPECT_EQ(Work(), OkStatus());
}

TEST_F(FaultsTest, AWireThatIsNotMendedLosesTheHost) {
  cluster_->hosts().Isolate(2);
  const Status status = WorkUntilItFails();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status), AnyOf(HasSubstr("rank 4"), HasSubstr("rank 5")));
  // Those workers have been given up, and hear it when the wire is mended.
  cluster_->hosts().Mend(2);
  EXPECT_EQ(cluster_->AwaitEnd("worker-4").status(), OkStatus());
  EXPECT_EQ(cluster_->AwaitEnd("worker-5").status(), OkStatus());
  ExpectRecovery(2);
}

// In the middle of it, and on a wire on which it takes seconds.
TEST_F(FaultsTest, ACopyGoesOnWhereACutHasStoppedIt) {
  constexpr int64_t kElements = 16 << 20;
  std::vector<uint32_t> sent(kElements);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<uint32_t>(i) * 2654435761u;
  const auto cut_after = [this](std::chrono::milliseconds delay) {
    return std::thread([this, delay] {
      std::this_thread::sleep_for(delay);
      cluster_->hosts().Isolate(0);
      std::this_thread::sleep_for(1500ms);
      cluster_->hosts().Mend(0);
    });
  };
  std::thread cutter = cut_after(20ms);
  const auto ref = session_->CopyToWorker0({kElements}, ViewOf(sent.data(), sent.size()));
  cutter.join();
  ASSERT_TRUE(ref.ok()) << ref.status();

  cluster_->hosts().Narrow(0, "400mbit");
  std::vector<uint32_t> received(sent.size());
  cutter = cut_after(300ms);
  const Status status = session_->CopyFromWorker0(ViewOf(received.data(), received.size()), *ref);
  cutter.join();
  EXPECT_EQ(status, OkStatus());
  EXPECT_TRUE(received == sent);
  EXPECT_EQ(Work(), OkStatus());
}

// All ranks are taken, and that one of their workers is gone is not known yet.
TEST_F(FaultsTest, AWorkerWithoutARankOfItsOwnWaitsForThatOfALostOne) {
  NetnsClusterOptions options{.hosts = 2, .ranks_per_host = 1, .assigned_ranks = true};
  // The other has asked long before.
  options.controller.worker_timeout = 6s;
  session_.reset();
  cluster_ = std::make_unique<NetnsCluster>(options);
  ASSERT_EQ(cluster_->Start(), OkStatus());
  const auto epoch_now = [this] {
    const auto status = cluster_->Ask();
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? status->epoch : epoch_;
  };
  epoch_ = epoch_now();
  cluster_->KillWorker(1);
  EXPECT_EQ(cluster_->StartWorker(1), OkStatus());
  const Deadline patience = Deadline::After(30s);
  while (epoch_now() == epoch_ && !patience.Expired()) std::this_thread::sleep_for(50ms);
  EXPECT_NE(epoch_now(), epoch_);
  ASSERT_EQ(cluster_->AwaitReady(), OkStatus()) << cluster_->LogOf("worker-1");
  HostsFixture::ExpectSumOfRanks(*cluster_);
}

// A controller that was started again elsewhere, under the same name, is found there.
TEST_F(FaultsTest, AControllerIsFoundWhereItsNameLeadsNow) {
  NetnsClusterOptions options{.hosts = 2, .ranks_per_host = 1};
  options.controller_name = "controller.test";
  options.controller_listens_everywhere = true;
  options.worker.controller_timeout = 2s;
  session_.reset();
  cluster_ = std::make_unique<NetnsCluster>(options);
  ASSERT_EQ(cluster_->Start(), OkStatus());
  const auto before = cluster_->Ask();
  ASSERT_TRUE(before.ok()) << before.status();

  cluster_->hosts().Kill(cluster_->controller_host());
  cluster_->MoveController(1);
  EXPECT_EQ(cluster_->StartController(), OkStatus());
  ASSERT_EQ(cluster_->AwaitReady(), OkStatus());
  const auto after = cluster_->Ask();
  ASSERT_TRUE(after.ok()) << after.status();
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(after->workers[rank].pid, before->workers[rank].pid);
  }
  HostsFixture::ExpectSumOfRanks(*cluster_);
}

// What it sends arrives, what is sent to it does not: half of each connection.
TEST_F(FaultsTest, AHostThatHearsNothingIsNotWaitedForForEver) {
  cluster_->hosts().Deafen(0);
  const Status status = WorkUntilItFails();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.code(), StatusCode::kInternal) << status;
}

// The controller reaches both, so no worker is lost; but they do not reach each other.
TEST_F(FaultsTest, HostsThatLoseEachOtherAreToldAtTheDeadlineAndGoOnWhenMended) {
  NetnsClusterOptions options{.hosts = 2};
  options.controller.collective_timeout = 2s;
  session_.reset();
  cluster_ = std::make_unique<NetnsCluster>(options);
  ASSERT_EQ(cluster_->Start(), OkStatus());
  auto session = cluster_->Connect();
  ASSERT_TRUE(session.ok()) << session.status();
  session_ = std::make_unique<Session>(*std::move(session));
  ASSERT_EQ(Work(), OkStatus());
  cluster_->hosts().Separate(0, 1);
  const Status status = WorkUntilItFails();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(Message(status), HasSubstr("did not come to"));
  cluster_->hosts().Mend(0);
  ASSERT_EQ(session_->Reset(), OkStatus());
  EXPECT_EQ(Work(), OkStatus());
}

TEST_F(FaultsTest, LostPacketsCostTimeOnly) {
  for (int host = 0; host < 3; ++host) cluster_->hosts().LosePackets(host, 100);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(Work(), OkStatus());
}

TEST_F(FaultsTest, ANarrowWireCostsTimeOnly) {
  for (int host = 0; host < 3; ++host) cluster_->hosts().Narrow(host, "100mbit");
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Work(), OkStatus());
}

TEST_F(FaultsTest, DistanceCostsTimeOnly) {
  for (int host = 0; host < 3; ++host) cluster_->hosts().Lengthen(host, 20ms);
  // Commands and their results are on their way that long, whichever rank executes them.
  const auto begin = Deadline::Clock::now();
  ASSERT_EQ(session_->SyncAll(), OkStatus());
  EXPECT_GE(Deadline::Clock::now() - begin, 40ms);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Work(), OkStatus());
  for (int host = 0; host < 3; ++host) cluster_->hosts().Mend(host);
  EXPECT_EQ(Work(), OkStatus());
}

TEST_F(FaultsTest, AKilledWorkerOfAnotherHostIsReplaced) {
  std::thread killer([&] {
    std::this_thread::sleep_for(50ms);
    cluster_->KillWorker(3);
  });
  const Status status = WorkUntilItFails();
  killer.join();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status), HasSubstr("rank 3"));
  // The others see the connection's end, and the controller a silence, which takes longer: who
  // comes in between is not refused because the rank seems taken.
  EXPECT_EQ(cluster_->StartWorker(3), OkStatus());
  AwaitLoss(3);
  ASSERT_EQ(session_->AwaitWorkers(30s), OkStatus());
  ASSERT_EQ(session_->Reset(), OkStatus());
  EXPECT_EQ(Work(), OkStatus());
}

TEST_F(FaultsTest, AControllerThatIsStartedAgainFindsItsHosts) {
  cluster_->KillController();
  EXPECT_EQ(cluster_->StartController(), OkStatus());
  ASSERT_EQ(cluster_->AwaitReady(), OkStatus());
  // What was under way is lost with the controller; what ranks hold is not.
  const Status status = Work();
  EXPECT_TRUE(status.ok() || status.code() == StatusCode::kUnavailable ||
              status.code() == StatusCode::kDataLoss)
      << status;
  ASSERT_EQ(session_->AwaitWorkers(30s), OkStatus());
  ASSERT_EQ(session_->Reset(), OkStatus());
  EXPECT_EQ(Work(), OkStatus());
}

}  // namespace
}  // namespace lockstep::testing
