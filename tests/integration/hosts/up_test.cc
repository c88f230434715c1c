// `lockstep up` with hosts that share nothing with this one but the wire. What stands in for ssh
// enters their namespaces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "tests/integration/cli/cli_fixture.h"
#include "tests/integration/hosts/hosts_fixture.h"
#include "tests/support/patience.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr int kHosts = 2;
constexpr int kWorkersPerHost = 2;

class UpTest : public cli::CliTest {
 protected:
  void SetUp() override {
    const std::string why_not = support::VirtualHosts::WhyNot();
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    hosts_ = std::make_unique<support::VirtualHosts>(kHosts);
    const std::string ssh = scratch_ + "/ssh";
    std::ofstream script(ssh);
    script << "#!/bin/sh\ncase $1 in\n";
    for (int host = 0; host < kHosts; ++host) {
      script << "  host" << host << ") exec";
      for (const std::string& word : hosts_->On(host, {"/bin/sh", "-c", "\"$2\""})) {
        script << " " << word;
      }
      script << " ;;\n";
    }
    script << "esac\n";
    script.close();
    std::filesystem::permissions(ssh, std::filesystem::perms::owner_all);
    cluster_file_ = WriteProgram(
        "controller:\n"
        "  worker_endpoint: tcp://10.77.0.0/16:*\n"
        "worker: {arena_bytes: 256MiB}\n"
        "ssh: [" +
        ssh + "]\nremote_program: " + worker_ +
        "\nhosts:\n"
        "  - {host: host0, workers: 2}\n"
        "  - {host: host1, workers: 2, data_address: eth0}\n");
  }

  bool HasWorkers(int host) {
    return RunProgram(
               hosts_->On(host, {"/bin/sh", "-c", "grep -qx lockstep-worker /proc/[0-9]*/comm"}))
               .code == 0;
  }
  // False if workers stay there.
  bool IsLeftAlone(int host) {
    const Deadline deadline = Deadline::After(cli::kPatience);
    while (HasWorkers(host)) {
      if (deadline.Expired()) return false;
      std::this_thread::sleep_for(5ms);
    }
    return true;
  }

  std::unique_ptr<support::VirtualHosts> hosts_;
  std::string cluster_file_;
};

TEST_F(UpTest, AClusterOverHostsComputesAndLeavesNothing) {
  const auto up = RunJson({"up", cluster_file_, "--detach"});
  const auto status = RunJson({"status"});
  ASSERT_EQ(status["workers"].size(), 4u);
  for (const auto& worker : status["workers"]) {
    const int rank = worker["rank"];
    EXPECT_EQ(worker["host"], "host" + std::to_string(rank / kWorkersPerHost));
    EXPECT_EQ(worker["backend"], "shm+tcp");
  }
  const auto session = [&]() -> Status {
    SessionOptions options;
    options.endpoint = up["endpoint"];
    LOCKSTEP_ASSIGN_OR_RETURN(Session session, Session::Connect(options));
    LOCKSTEP_ASSIGN_OR_RETURN(const DRef sum, HostsFixture::SumOfRanks(session, 100'000));
    // From a worker's memory that is on another host: by the bulk socket.
    LOCKSTEP_ASSIGN_OR_RETURN(const HostTensor read, session.CopyFromWorker0(sum));
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<float> elements, read.Elements<float>());
    if (elements.back() != 6) return Internal("read ", elements.back(), " from worker 0");
    return HostsFixture::CheckSum(session, sum, kHosts * kWorkersPerHost);
  };
  EXPECT_EQ(session(), OkStatus());

  for (int host = 0; host < kHosts; ++host) EXPECT_TRUE(HasWorkers(host)) << "host " << host;
  EXPECT_EQ(Run({"down"}).code, 0);
  for (int host = 0; host < kHosts; ++host) EXPECT_TRUE(IsLeftAlone(host)) << "host " << host;
}

// A socket in the run directory would be for this host's clients only.
TEST_F(UpTest, WorkersOfThisHostListenForClientsOfOthers) {
  const auto up = RunJson({"up", cluster_file_, "--detach", "--set",
                           "hosts=[{host: localhost, workers: 2}, {host: host1, workers: 2}]",
                           "--set", "controller.client_endpoint=tcp://10.77.0.0/16:*"});
  const std::string program = root_ + "/examples/programs/collectives.yaml";
  const std::string lockstep = root_ + "/tools/cli/lockstep";
  const cli::Result run =
      RunProgram(hosts_->On(0, {lockstep, "run", program, "--connect", up["endpoint"], "--key",
                                up["key"], "--controller-key", up["controller_key"]}));
  EXPECT_EQ(run.code, 0) << run.output;
  const cli::Result stranger =
      RunProgram(hosts_->On(0, {lockstep, "run", program, "--connect", up["endpoint"]}));
  EXPECT_EQ(stranger.code, 3);
  EXPECT_THAT(stranger.output, HasSubstr("asks for keys"));
  EXPECT_EQ(cli::ReadFile(RunDirectory("lockstep") + "/worker-0.yaml").find("bulk_endpoint"),
            std::string::npos);
}

TEST_F(UpTest, WhenUpIsKilledNoHostKeepsAWorker) {
  const std::string log = NewLog();
  auto up = Spawn({"up", cluster_file_}, log);
  ASSERT_TRUE(up.ok()) << up.status();
  const Deadline deadline = Deadline::After(cli::kPatience);
  while (cli::ReadFile(log).find("press ^C") == std::string::npos) {
    ASSERT_TRUE(up->Running() && !deadline.Expired()) << cli::ReadFile(log);
    support::LetOthersWork();
  }
  up->Signal(SIGKILL);
  for (int host = 0; host < kHosts; ++host) EXPECT_TRUE(IsLeftAlone(host)) << "host " << host;
}

TEST_F(UpTest, AHostThatVanishesIsLostAndDoesNotHoldUpDown) {
  const auto up = RunJson({"up", cluster_file_, "--detach"});
  hosts_->Kill(1);
  const Deadline deadline = Deadline::After(cli::kPatience);
  while (RunJson({"status"})["workers"][3]["state"] != "lost") {
    ASSERT_FALSE(deadline.Expired());
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(Run({"down"}).code, 0);
  EXPECT_TRUE(IsLeftAlone(0));
}

}  // namespace
}  // namespace lockstep::testing
