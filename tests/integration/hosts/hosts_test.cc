// A cluster over several hosts does everything that it does on one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <string>

#include "tests/integration/hosts/hosts_fixture.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using HostsTest = HostsFixture;

// Reads until `part` is there, or for 30 s; returns what it has read last.
std::string AwaitText(const std::function<std::string()>& read, const std::string& part) {
  const Deadline patience = Deadline::After(30s);
  std::string text = read();
  while (text.find(part) == std::string::npos && !patience.Expired()) {
    std::this_thread::sleep_for(50ms);
    text = read();
  }
  return text;
}

// What is in the way of rank 0 once it contains `part`, while the cluster is not ready.
std::string AwaitObstacle(NetnsCluster& cluster, const std::string& part) {
  return AwaitText(
      [&]() -> std::string {
        const auto status = cluster.Ask();
        EXPECT_TRUE(status.ok()) << status.status();
        if (!status.ok()) return "";
        EXPECT_FALSE(status->IsReady());
        return status->workers[0].connection;
      },
      part);
}

std::string AwaitLog(const NetnsCluster& cluster, const std::string& name,
                     const std::string& part) {
  return AwaitText([&] { return cluster.LogOf(name); }, part);
}

TEST_F(HostsTest, StatusTellsWhatConnectsWhom) {
  NetnsCluster cluster;
  ASSERT_EQ(cluster.Start(), OkStatus());
  const auto status = cluster.Ask();
  ASSERT_TRUE(status.ok()) << status.status();
  for (const WorkerStatus& worker : status->workers) {
    EXPECT_EQ(worker.backend, "shm+tcp");
    EXPECT_THAT(worker.connection, HasSubstr("rank 0 cannot map the memory of rank 2: "));
    EXPECT_THAT(worker.connection, HasSubstr("; tcp is encrypted"));
    EXPECT_EQ(worker.host, "host" + std::to_string(worker.rank / 2));
  }
  ExpectSumOfRanks(cluster);
}

// Each host says how sure its clock is, and what the ranks do together happens together.
TEST_F(HostsTest, ATimelineHasAllHosts) {
  NetnsCluster cluster;
  ASSERT_EQ(cluster.Start(), OkStatus());
  auto session = cluster.Connect();
  ASSERT_TRUE(session.ok()) << session.status();
  TraceOptions options;
  options.timeout = 30s;
  ASSERT_EQ(session->StartTrace(options), OkStatus());
  const auto sum = SumOfRanks(*session, 1000);
  ASSERT_TRUE(sum.ok()) << sum.status();
  ASSERT_EQ(session->SyncAll(), OkStatus());
  const auto trace = session->StopTrace();
  ASSERT_TRUE(trace.ok()) << trace.status();
  int64_t last_begin = 0;
  int64_t first_end = std::numeric_limits<int64_t>::max();
  int ranks = 0;
  for (const TraceProcess& process : trace->processes) {
    if (process.role != TraceProcess::Role::kWorker) continue;
    EXPECT_EQ(process.missing, "");
    EXPECT_TRUE(process.clock_is_known);
    EXPECT_EQ(process.host, "host" + std::to_string(process.rank / 2));
    for (const trace::Event& event : process.threads[0].events) {
      if (std::string(event.name) != "allreduce") continue;
      ++ranks;
      last_begin = std::max(last_begin, event.begin);
      first_end = std::min(first_end, event.end);
      EXPECT_STREQ(event.backend, "shm+tcp");
    }
  }
  EXPECT_EQ(ranks, cluster.workers());
  EXPECT_LE(last_begin, first_end + 2 * trace->clock_uncertainty().count());
}

TEST_F(HostsTest, OneRankAHostNeedsNoSharedMemory) {
  NetnsCluster cluster({.hosts = 3, .ranks_per_host = 1});
  ASSERT_EQ(cluster.Start(), OkStatus());
  EXPECT_EQ(cluster.Ask()->workers[0].backend, "tcp");
  ExpectSumOfRanks(cluster);
}

TEST_F(HostsTest, WhereItIsAllowedNothingIsEncrypted) {
  NetnsClusterOptions options{.hosts = 2};
  options.worker.data_plaintext = "network";
  NetnsCluster cluster(options);
  ASSERT_EQ(cluster.Start(), OkStatus());
  EXPECT_THAT(cluster.Ask()->workers[0].connection, Not(HasSubstr("encrypted")));
  ExpectSumOfRanks(cluster);
}

TEST_F(HostsTest, Ipv6Works) {
  NetnsCluster cluster({.hosts = 2, .ipv6 = true});
  ASSERT_EQ(cluster.Start(), OkStatus());
  ExpectSumOfRanks(cluster);
}

TEST_F(HostsTest, InterfacesAndNetworksAreAddressesToo) {
  for (const char* address : {"eth0", "10.77.0.0/16", "fd77::/16"}) {
    NetnsClusterOptions options{.hosts = 2};
    options.worker.data_address = address;
    NetnsCluster cluster(options);
    ASSERT_EQ(cluster.Start(), OkStatus()) << address;
    ExpectSumOfRanks(cluster);
  }
}

TEST_F(HostsTest, AnAddressThatTheHostDoesNotHaveEndsTheWorkerWithWhatItHas) {
  NetnsClusterOptions options{.hosts = 2};
  options.worker.data_address = "192.168.1.0/24";
  NetnsCluster cluster(options);
  EXPECT_EQ(cluster.StartController(), OkStatus());
  EXPECT_EQ(cluster.StartWorker(0), OkStatus());
  EXPECT_EQ(cluster.AwaitEnd("worker-0").status(), OkStatus());
  EXPECT_THAT(
      cluster.LogOf("worker-0"),
      HasSubstr("this host has no address in 192.168.1.0/24; it has lo 127.0.0.1, eth0 10.77."));
}

TEST_F(HostsTest, SharedMemoryCannotBeForcedOverHosts) {
  NetnsClusterOptions options{.hosts = 2};
  options.controller.communicator = "shm";
  NetnsCluster cluster(options);
  EXPECT_EQ(cluster.StartController(), OkStatus());
  EXPECT_EQ(cluster.StartWorkersOf(0), OkStatus());
  EXPECT_EQ(cluster.StartWorkersOf(1), OkStatus());
  EXPECT_EQ(cluster.AwaitEnd("worker-0").status(), OkStatus());
  EXPECT_THAT(
      cluster.LogOf("worker-0"),
      AllOf(HasSubstr("the ranks cannot be connected by shm, which the controller is set to"),
            HasSubstr("rank 0 cannot map the memory of rank 2")));
}

TEST_F(HostsTest, StartInAnyOrder) {
  NetnsCluster cluster({.hosts = 2});
  EXPECT_EQ(cluster.StartWorkersOf(1), OkStatus());
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(cluster.StartController(), OkStatus());
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(cluster.StartWorkersOf(0), OkStatus());
  ASSERT_EQ(cluster.AwaitReady(), OkStatus());
  ExpectSumOfRanks(cluster);
}

// A controller that listens everywhere is told apart from one that others cannot reach.
TEST_F(HostsTest, AControllerMayListenAtAllItsAddresses) {
  NetnsClusterOptions options{.hosts = 2};
  options.controller_listens_everywhere = true;
  NetnsCluster cluster(options);
  ASSERT_EQ(cluster.Start(), OkStatus());
  ExpectSumOfRanks(cluster);
}

// Behind an address that leads nowhere; and behind a wall, which is opened.
TEST_F(HostsTest, AWorkerThatCannotBeReachedBackIsToldAndDoesNotCount) {
  NetnsClusterOptions options{.hosts = 1, .ranks_per_host = 1};
  options.worker.advertise_address = "203.0.113.9";
  NetnsCluster nowhere(options);
  EXPECT_EQ(nowhere.StartController(), OkStatus());
  EXPECT_EQ(nowhere.StartWorker(0), OkStatus());
  const std::string obstacle = "cannot connect to worker";
  for (const std::string& text :
       {AwaitObstacle(nowhere, obstacle), AwaitLog(nowhere, "worker-0", obstacle),
        AwaitLog(nowhere, "controller", obstacle)}) {
    EXPECT_THAT(text, AllOf(HasSubstr(obstacle), HasSubstr("203.0.113.9:"),
                            HasSubstr("advertise_address")));
  }
  const lockstep::Status late = nowhere.AwaitReady(500ms);
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded) << late;
  const auto status = nowhere.Ask();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->workers[0].state, WorkerState::kMissing);

  options.worker.advertise_address = "";
  options.worker.bulk_endpoint = "tcp://eth0:7777";
  NetnsCluster walled(options);
  const std::string wall = "INPUT -p tcp --dport 7777 -j REJECT --reject-with tcp-reset";
  ASSERT_TRUE(walled.hosts().Run(0, "iptables -A " + wall));
  EXPECT_EQ(walled.StartController(), OkStatus());
  EXPECT_EQ(walled.StartWorker(0), OkStatus());
  const std::string refused = ":7777 does not answer: Connection refused";
  EXPECT_THAT(AwaitLog(walled, "worker-0", refused), HasSubstr(refused));
  ASSERT_TRUE(walled.hosts().Run(0, "iptables -D " + wall));
  ASSERT_EQ(walled.AwaitReady(), OkStatus());
  const auto reached = walled.Ask();
  ASSERT_TRUE(reached.ok()) << reached.status();
  EXPECT_THAT(reached->workers[0].connection, Not(HasSubstr("7777")));
}

TEST_F(HostsTest, AWorkerMayListenAtAllItsAddresses) {
  NetnsClusterOptions options{.hosts = 1, .ranks_per_host = 1};
  options.worker.bulk_endpoint = "tcp://*:7777";
  NetnsCluster cluster(options);
  ASSERT_EQ(cluster.Start(), OkStatus());
  auto session = cluster.Connect();
  ASSERT_TRUE(session.ok()) << session.status();
  const auto ref = session->CopyToWorker0(HostTensor::Of<int32_t>({2}, {{1, 2}}));
  ASSERT_TRUE(ref.ok()) << ref.status();
  EXPECT_EQ(*session->CopyFromWorker0(*ref)->Elements<int32_t>(), (std::vector<int32_t>{1, 2}));
}

TEST_F(HostsTest, RanksThatDoNotReachEachOtherAreToldAndTryAgain) {
  NetnsCluster cluster({.hosts = 3, .ranks_per_host = 1});
  cluster.hosts().Separate(0, 1);
  EXPECT_EQ(cluster.StartController(), OkStatus());
  for (int host = 0; host < 3; ++host) EXPECT_EQ(cluster.StartWorkersOf(host), OkStatus());
  EXPECT_THAT(AwaitObstacle(cluster, "cannot be reached"),
              AllOf(HasSubstr("cannot be reached"), HasSubstr("rank 1")));
  cluster.hosts().Mend(0);
  ASSERT_EQ(cluster.AwaitReady(), OkStatus());
  ExpectSumOfRanks(cluster);
}

}  // namespace
}  // namespace lockstep::testing
