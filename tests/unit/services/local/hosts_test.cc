#include "services/local/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "services/local/cluster_config.h"
#include "tests/support/files.h"

namespace lockstep::local {
namespace {

using support::Write;
using ::testing::HasSubstr;

// Three lines of a controller that other hosts reach, and workers that may reach it.
const char kNetwork[] =
    "controller: {worker_endpoint: 'tcp://10.1.0.1:7401'}\n"
    "worker: {data_plaintext: network, max_registers: 64}\n"
    "hosts:\n";

std::string ProblemsOf(const std::string& text, std::vector<std::string> assignments = {}) {
  return Message(LoadCluster({Write(text), std::move(assignments)}).status());
}

TEST(HostsTest, RanksGoFromTheFirstHostToTheLast) {
  const auto options = LoadCluster(
      {Write(std::string(kNetwork) + "  - localhost\n"
                                     "  - {host: me@node1, workers: 2, max_registers: 32}\n"
                                     "  - {host: '[fd00::7]', program: bin/worker}\n"
                                     "remote_program: /opt/worker\n"
                                     "ranks: {2: {max_registers: 16}}\n"),
       {}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->workers, 4);
  EXPECT_EQ(options->controller.workers, 4);
  ASSERT_EQ(options->ranks.size(), 4u);
  EXPECT_EQ(options->HostOf(0).host, "localhost");
  EXPECT_EQ(options->HostOf(1).host, "me@node1");
  EXPECT_EQ(options->HostOf(2).host, "me@node1");
  EXPECT_EQ(options->HostOf(3).host, "[fd00::7]");
  EXPECT_EQ(options->HostOf(1).program, "/opt/worker");
  EXPECT_EQ(options->HostOf(3).program, "bin/worker");
  EXPECT_EQ(options->ranks[0].max_registers, 64u) << "from worker";
  EXPECT_EQ(options->ranks[1].max_registers, 32u) << "the host's wins over worker's";
  EXPECT_EQ(options->ranks[2].max_registers, 16u) << "the rank's wins over the host's";
  EXPECT_EQ(options->ranks[2].rank, 2);
  EXPECT_EQ(options->ssh.front(), "ssh");
}

TEST(HostsTest, WithoutAnyAllWorkersAreHere) {
  for (const char* text : {"", "hosts:\n", "hosts: []\n", "hosts: [localhost, localhost]\n"}) {
    const auto options = LoadCluster({Write(text), {}});
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_FALSE(options->HasOtherHosts()) << text;
    EXPECT_TRUE(options->HostOf(options->workers - 1).IsThisHost()) << text;
  }
}

TEST(HostsTest, AssignmentsReplaceTheListOrChangeAnItem) {
  const std::string file = Write(std::string(kNetwork) + "  - {host: a, workers: 3}\n  - b\n");
  const auto changed = LoadCluster({file, {"hosts[1].workers=2"}});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(changed->workers, 5);
  EXPECT_EQ(changed->HostOf(4).host, "b");
  for (const char* whole : {"hosts=[c]", "hosts=[{host: c}]", "hosts=c"}) {
    const auto replaced = LoadCluster({file, {whole}});
    ASSERT_TRUE(replaced.ok()) << replaced.status();
    EXPECT_EQ(replaced->workers, 1) << whole;
    EXPECT_EQ(replaced->HostOf(0).host, "c") << whole;
  }
}

TEST(HostsTest, ProblemsNameTheirLine) {
  const std::string text = ProblemsOf(std::string(kNetwork) +
                                      "  - -oProxyCommand=x\n"
                                      "  - {host: 'a b', workers: 0}\n"
                                      "  - {workers: 2}\n"
                                      "  - {host: c, wrkers: 2, rank: 1}\n"
                                      "  - {host: d, program: ~/bin/worker}\n"
                                      "  - {host: me@-d, program: -x}\n");
  const std::string path = Write("") + ":";
  for (const char* part :
       {"4: hosts[0].host: \"-oProxyCommand=x\" is no host; allowed: a name",
        "5: hosts[1].host: \"a b\" is no host",
        "5: hosts[1].workers: \"0\" is out of bounds; allowed: 1 to 4096",
        "6: hosts[2].host: missing, but required",
        "7: hosts[3].wrkers: unknown key; did you mean \"hosts[3].workers\"?",
        "7: hosts[3].rank: cannot be given here",
        "8: hosts[4].program: \"~/bin/worker\": leave out the ~/",
        "9: hosts[5].host: \"me@-d\" is no host", "9: hosts[5].program: \"-x\" is no program"}) {
    EXPECT_THAT(text, HasSubstr(path + part));
  }
}

TEST(HostsTest, TheSectionIsAList) {
  EXPECT_THAT(ProblemsOf("hosts: {node1: {workers: 2}}\n"),
              HasSubstr(":1: hosts.node1.workers: hosts is a list"));
  EXPECT_THAT(ProblemsOf("hosts: [a]\n", {"hosts[7].workers=2"}),
              HasSubstr("hosts[7].workers: hosts is a list"));
  EXPECT_THAT(ProblemsOf("worker: {module_path: [{a: b}]}\n"),
              HasSubstr(":1: worker.module_path: the items of a list must be plain values"));
}

// A number was taken for the name of another host, and only what that needs was missed.
TEST(HostsTest, ANumberInPlaceOfHostsIsTheOnlyProblemThatIsTold) {
  for (const char* text : {"hosts: 3\n", "hosts: [3]\n"}) {
    EXPECT_THAT(ProblemsOf(text), testing::AllOf(HasSubstr(":1: hosts: \"3\" is a number"),
                                                 testing::Not(HasSubstr("worker_endpoint"))));
  }
}

TEST(HostsTest, TheNumberOfWorkersFollowsFromTheHosts) {
  EXPECT_EQ(ProblemsOf(std::string("workers: 2\n") + kNetwork + "  - a\n  - b\n"), "");
  EXPECT_THAT(ProblemsOf(std::string(kNetwork) + "  - a\n  - b\n", {"workers=3"}),
              HasSubstr("--set workers=3: workers: \"3\", but the hosts have 2"));
  EXPECT_THAT(ProblemsOf(std::string(kNetwork) + "  - {host: a, workers: 4096}\n  - b\n"),
              HasSubstr(":5: hosts[1].workers: with the hosts before, these are more than 4096"));
}

TEST(HostsTest, OtherHostsMustReachTheController) {
  const auto problem = [](const std::string& controller) {
    return ProblemsOf("controller: {" + controller +
                      "}\nworker: {data_plaintext: network}\nhosts: [a]\n");
  };
  EXPECT_THAT(problem("stuck_after: 1s"),
              HasSubstr(":3: controller.worker_endpoint: missing, but there are other hosts; write "
                        "tcp://ADDRESS:PORT"));
  for (const char* local : {"ipc:///tmp/x", "inproc://x", "tcp://127.0.0.1:*", "tcp://lo:1"}) {
    EXPECT_THAT(problem("worker_endpoint: '" + std::string(local) + "'"),
                HasSubstr(":1: controller.worker_endpoint: \"" + std::string(local) +
                          "\" is not for other hosts"));
  }
  EXPECT_THAT(problem("worker_endpoint: 'tcp://*:7401'"),
              HasSubstr("does not say at which address other hosts reach it"));
  EXPECT_THAT(problem("worker_endpoint: 'tcp://eth0:*', liveness_endpoint: ipc:///tmp/x"),
              HasSubstr(":1: controller.liveness_endpoint: \"ipc:///tmp/x\" is not for other"));
  EXPECT_EQ(problem("worker_endpoint: 'tcp://10.1.0.0/16:*'"), "");
  EXPECT_EQ(problem("worker_endpoint: 'tcp://*:*', advertise_address: node0"), "");
  EXPECT_EQ(problem("worker_endpoint: 'tcp://127.0.0.1:*', advertise_address: 127.0.0.1"), "")
      << "a tunnel leads them there";
}

TEST(HostsTest, TensorsCrossANetworkOnlyWhereThatIsSaid) {
  const std::string controller = "controller: {worker_endpoint: 'tcp://10.1.0.1:7401'}\n";
  EXPECT_EQ(ProblemsOf(controller + "hosts: [a, b]\n"), "") << "they are encrypted";
  const std::string open = controller + "worker: {data_encryption: off}\n";
  EXPECT_THAT(ProblemsOf(open + "hosts: [a, b]\n"),
              HasSubstr(":3: worker.data_plaintext: rank 0 may not exchange tensors with other "
                        "hosts, because worker.data_encryption is off"));
  EXPECT_EQ(
      ProblemsOf(open + "hosts: [a, b]\nranks: {0: {data_plaintext: network}, 1: {data_plaintext: "
                        "network}}\n"),
      "");
  EXPECT_EQ(ProblemsOf(open + "hosts: [{host: a, workers: 2}]\n"), "")
      << "all are on one host, and share its memory";
  EXPECT_THAT(ProblemsOf(controller + "worker: {device: cuda}\nhosts: [a, b]\n"),
              HasSubstr("because NCCL, by which GPUs exchange them, does not encrypt"));
  EXPECT_EQ(ProblemsOf(controller + "worker: {device: cuda, data_plaintext: network}\n"
                                    "hosts: [a, b]\n"),
            "");
  EXPECT_THAT(ProblemsOf("controller: {worker_endpoint: 'tcp://10.1.0.1:7401', communicator: "
                         "shm+gloo}\nhosts: [a, b]\n"),
              HasSubstr("because controller.communicator: shm+gloo does not encrypt"));
}

TEST(HostsTest, KeysAreGivenAllOrNone) {
  const std::string hosts =
      "controller: {worker_endpoint: 'tcp://10.1.0.1:7401', client_endpoint: 'tcp://10.1.0.1:7400'"
      "%s}\nworker: {data_plaintext: network%s}\nhosts: [a]\n";
  const auto problem = [&](const std::string& controller, const std::string& worker,
                           const std::string& more = "") {
    std::string text = hosts;
    text.replace(text.find("%s"), 2, controller);
    text.replace(text.find("%s"), 2, worker);
    return ProblemsOf(text + more);
  };
  const std::string own = ", key: c.key, allowed_keys: allowed";
  const std::string workers = ", key: w.key, controller_key: c.pub";
  EXPECT_EQ(problem("", ""), "") << "they are made at the start";
  EXPECT_EQ(problem(own, workers, "operator_key: me.key\n"), "");
  EXPECT_THAT(problem(", key: c.key", workers, "operator_key: me.key\n"),
              HasSubstr(":1: controller.key: given without controller.allowed_keys"));
  EXPECT_THAT(problem("", workers), HasSubstr(":2: worker.key: given without controller.key"));
  EXPECT_THAT(problem(own, "", "operator_key: me.key\n"),
              HasSubstr("worker.key: missing, but required beside controller.key: rank 0"));
  EXPECT_THAT(problem(own, workers), HasSubstr("operator_key: missing, but required"));
}

TEST(HostsTest, SshIsAListOfWords) {
  EXPECT_THAT(ProblemsOf("ssh: ssh -p 22\n"),
              HasSubstr(":1: ssh: \"ssh -p 22\" is one word with blanks in it; allowed: a program "
                        "and its arguments, such as [ssh, -p, 2222]"));
  EXPECT_THAT(ProblemsOf("ssh: []\n"), HasSubstr(":1: ssh: names no program"));
  const std::string file = Write("ssh: [./bin/my ssh, -p, 22]\n");
  const auto options = LoadCluster({file, {}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->ssh.front(), HasSubstr("/bin/my ssh"));
  EXPECT_EQ(options->ssh.front().front(), '/');
  EXPECT_EQ(options->ssh.back(), "22");
}

TEST(HostsTest, AFileWithHostsIsAClusterFile) {
  EXPECT_EQ(*GuessFileKind(Write("hosts: [{host: a}]\n")), FileKind::kCluster);
}

}  // namespace
}  // namespace lockstep::local
