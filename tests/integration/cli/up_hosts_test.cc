// `lockstep up` with hosts. What stands in for ssh runs its command on this host, so that these
// tests need neither other hosts nor root; tests/integration/hosts has a cluster over real ones.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <thread>

#include "tests/integration/cli/cli_fixture.h"
#include "tests/support/patience.h"

namespace lockstep::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class UpHostsTest : public CliTest {
 protected:
  UpHostsTest() {
    ssh_ = scratch_ + "/ssh";
    // ssh HOST COMMAND. It stays between its parent and the worker, as ssh does.
    std::ofstream(ssh_) << "#!/bin/sh\n"
                           "case $1 in\n"
                           "  unreachable) echo 'no route to unreachable' >&2; exit 255 ;;\n"
                           "  silent) echo $$ > \"$0.silent\"; sleep 600 ;;\n"
                           "  busy) mkdir -p \"$0.logins\" && touch \"$0.logins/$$\"\n"
                           "        ls \"$0.logins\" | wc -l >> \"$0.counts\"\n"
                           "        sleep 0.05; rm \"$0.logins/$$\"; exec /bin/sh -c \"$2\" ;;\n"
                           "  *) /bin/sh -c \"$2\"; exit $? ;;\n"
                           "esac\n";
    fs::permissions(ssh_, fs::perms::owner_all);
  }

  // `hosts` as YAML.
  std::string WriteCluster(const std::string& hosts, const std::string& more = "") {
    return WriteProgram(
        "controller: {worker_endpoint: 'tcp://127.0.0.1:*', advertise_address: 127.0.0.1}\n"
        "worker: {arena_bytes: 16MiB}\n"
        "ssh: [" +
        ssh_ + "]\nremote_program: " + worker_ + "\nhosts: " + hosts + "\n" + more);
  }

  // Starts it in the foreground, and waits until it is ready.
  StatusOr<ChildProcess> UpInForeground(const std::string& file) {
    const std::string log = NewLog();
    StatusOr<ChildProcess> up = Spawn({"up", file, "--output", "json"}, log);
    const Deadline deadline = Deadline::After(kPatience);
    while (up.ok() && ReadFile(log).find("\n}\n") == std::string::npos) {
      if (!up->Running() || deadline.Expired()) return Internal(ReadFile(log));
      support::LetOthersWork();
    }
    return up;
  }

  // The workers themselves, wherever they run; `up` knows what represents them.
  std::vector<pid_t> WorkerPids() {
    std::vector<pid_t> pids;
    const json status = RunJson({"status"});
    for (const json& worker : status["workers"]) pids.push_back(worker["pid"]);
    return pids;
  }

  static void ExpectGone(const std::vector<pid_t>& pids) {
    const Deadline deadline = Deadline::After(kPatience);
    for (const pid_t pid : pids) {
      while (IsRunning(pid)) {
        ASSERT_FALSE(deadline.Expired()) << "process " << pid << " is left behind";
        std::this_thread::sleep_for(2ms);
      }
    }
  }

  // The process that was started for the host that never answers.
  pid_t AwaitSilent() {
    const Deadline deadline = Deadline::After(kPatience);
    while (ReadFile(ssh_ + ".silent").find('\n') == std::string::npos) {
      if (deadline.Expired()) return -1;
      support::LetOthersWork();
    }
    return std::stoi(ReadFile(ssh_ + ".silent"));
  }

  std::string ssh_;
};

TEST_F(UpHostsTest, RanksGoFromTheFirstHostToTheLast) {
  const std::string file =
      WriteCluster("[node1, {host: me@node2, workers: 2, max_registers: 64}, localhost]");
  const json up = RunJson({"up", file, "--detach"});
  EXPECT_EQ(up["hosts"], json::parse("[{\"host\": \"node1\", \"ranks\": [0]},"
                                     " {\"host\": \"me@node2\", \"ranks\": [1, 2]},"
                                     " {\"host\": \"localhost\", \"ranks\": [3]}]"));
  const std::vector<pid_t> pids = WorkerPids();
  ASSERT_EQ(pids.size(), 4u);
  EXPECT_NE(pids[0], up["worker_pids"][0]) << "is represented by another process";
  EXPECT_EQ(pids[3], up["worker_pids"][3]);
  EXPECT_THAT(ReadFile(RunDirectory("lockstep") + "/worker-2.yaml"),
              HasSubstr("max_registers: 64\n"));
  EXPECT_EQ(Run({"run", root_ + "/examples/programs/collectives.yaml"}).code, 0);

  EXPECT_EQ(Run({"down"}).code, 0);
  ExpectGone(pids);
  ExpectGone(up["worker_pids"]);
}

TEST_F(UpHostsTest, NoSettingIsOnACommandLine) {
  ASSERT_EQ(Run({"up", WriteCluster("[node1]"), "--detach"}).code, 0);
  const std::string expected = worker_ + std::string("\0--config\0-\0--die-with-input\0", 29);
  EXPECT_EQ(ReadFile("/proc/" + std::to_string(WorkerPids()[0]) + "/cmdline"), expected);
}

TEST_F(UpHostsTest, ThePersonIsToldWhatRunsWhere) {
  const Result up = Run({"up", WriteCluster("[node1, {host: node2, workers: 2}]"), "--detach"});
  EXPECT_THAT(up.output, HasSubstr("hosts     node1 (rank 0), node2 (ranks 1, 2)\n"));
  EXPECT_THAT(ReadFile(RecordPath("lockstep")), HasSubstr("worker-2 on node2"));
}

TEST_F(UpHostsTest, APathIsOneWordForTheShellThere) {
  const std::string directory = scratch_ + "/it's $(touch INJECTED) \"a\\b\"; exit 3";
  fs::create_directory(directory);
  fs::create_symlink(worker_, directory + "/lockstep-worker");
  const std::string file = WriteCluster("[node1]");
  const Result up = Run(
      {"up", file, "--detach", "--set", "remote_program=|-\n  " + directory + "/lockstep-worker"});
  EXPECT_EQ(up.code, 0) << up.output;
  EXPECT_FALSE(fs::exists("INJECTED"));
}

TEST_F(UpHostsTest, AHostThatCannotBeReachedIsNamed) {
  const std::string file = WriteCluster("[node1, unreachable]");
  const Deadline soon = Deadline::After(25s);
  const Result up = Run({"up", file});
  EXPECT_FALSE(soon.Expired()) << "it need not wait until everything should be ready";
  EXPECT_EQ(up.code, 1);
  EXPECT_THAT(up.output, AllOf(HasSubstr("worker-1 on unreachable (process "),
                               HasSubstr("no route to unreachable"), HasSubstr("could not connect"),
                               HasSubstr(ssh_ + " unreachable 'exec " + worker_ + " --config - ")));
  EXPECT_EQ(Run({"status"}).code, 3);
}

TEST_F(UpHostsTest, AProgramThatIsNotThereIsNamed) {
  const std::string file = WriteCluster("[node1, {host: node2, program: bin/worker}]");
  const Result up = Run({"up", file});
  EXPECT_EQ(up.code, 1);
  EXPECT_THAT(up.output, AllOf(HasSubstr("worker-1 on node2"), HasSubstr("exec bin/worker"),
                               HasSubstr("does not find the program: install it, or set "
                                         "remote_program")));
}

TEST_F(UpHostsTest, WithoutSshNothingIsStarted) {
  ssh_ = "no-such-ssh";
  const Result up = Run({"up", WriteCluster("[node1]")});
  EXPECT_EQ(up.code, 1);
  EXPECT_THAT(up.output, AllOf(HasSubstr("\"no-such-ssh\""), HasSubstr("it is not in PATH"),
                               HasSubstr("set ssh")));
  EXPECT_FALSE(std::filesystem::exists(RunDirectory("lockstep"))) << "it holds no logs";
}

TEST_F(UpHostsTest, AHostThatNeverAnswersIsNamedInTime) {
  const Result up = Run({"up", WriteCluster("[node1, silent]"), "--timeout", "4"});
  EXPECT_EQ(up.code, 1);
  EXPECT_THAT(up.output, HasSubstr("rank 1 (silent) is missing"));
  EXPECT_THAT(up.output, Not(HasSubstr("rank 0 (node1) is missing")));
  ExpectGone({AwaitSilent()});
}

TEST_F(UpHostsTest, AnInterruptedStartLeavesNothing) {
  const std::string log = NewLog();
  auto up = Spawn({"up", WriteCluster("[node1, silent]"), "--timeout", "600"}, log);
  ASSERT_TRUE(up.ok()) << up.status();
  const pid_t silent = AwaitSilent();
  ASSERT_GT(silent, 0) << ReadFile(log);
  up->Signal(SIGINT);
  const auto status = up->Wait(Deadline::After(kPatience));
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->code, 130) << ReadFile(log);
  ExpectGone({silent});
  EXPECT_FALSE(fs::exists(RunDirectory("lockstep")));
}

TEST_F(UpHostsTest, WhenUpIsInterruptedTheWorkersEndInOrder) {
  auto up = UpInForeground(WriteCluster("[node1, {host: node2, workers: 2}]"));
  ASSERT_TRUE(up.ok()) << up.status();
  const std::vector<pid_t> pids = WorkerPids();
  up->Signal(SIGINT);
  const auto status = up->Wait(Deadline::After(kPatience));
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_TRUE(status->ok()) << status->Describe();
  ExpectGone(pids);
}

TEST_F(UpHostsTest, WhenUpIsKilledNoWorkerIsLeftBehind) {
  auto up = UpInForeground(WriteCluster("[node1, {host: node2, workers: 2}]"));
  ASSERT_TRUE(up.ok()) << up.status();
  const std::vector<pid_t> pids = WorkerPids();
  up->Signal(SIGKILL);
  ExpectGone(pids);
}

// The connection's end is the same for the worker, whichever process has ended it.
TEST_F(UpHostsTest, AWorkerEndsWithWhatRepresentsIt) {
  const json up = RunJson({"up", WriteCluster("[node1, node2]"), "--detach"});
  const std::vector<pid_t> pids = WorkerPids();
  ASSERT_EQ(kill(up["worker_pids"][1], SIGKILL), 0);
  ExpectGone({pids[1]});
  EXPECT_TRUE(IsRunning(pids[0]));
  EXPECT_THAT(ReadFile(RunDirectory("lockstep") + "/worker-1.log"),
              HasSubstr("the standard input has ended"));
  EXPECT_EQ(RunJson({"status"})["workers"][1]["state"], "lost");
  EXPECT_EQ(Run({"down"}).code, 0);
  ExpectGone({pids[0]});
}

// sshd turns some of them away when there are ten.
TEST_F(UpHostsTest, AHostIsSparedFromTooManyLoginsAtOnce) {
  const Result up = Run({"up", WriteCluster("[{host: busy, workers: 12}]"), "--detach"});
  ASSERT_EQ(up.code, 0) << up.output;
  std::istringstream counts(ReadFile(ssh_ + ".counts"));
  int logins = 0;
  for (int at_once = 0; counts >> at_once; ++logins) EXPECT_LE(at_once, 8);
  EXPECT_EQ(logins, 12);
}

TEST_F(UpHostsTest, WhatCannotWorkIsRefusedBeforeAnythingStarts) {
  const std::string file = WriteCluster("[node1]");
  const Result ipc = Run({"up", file, "--set", "controller.worker_endpoint=ipc:///tmp/x"});
  EXPECT_EQ(ipc.code, 2);
  EXPECT_THAT(ipc.output, HasSubstr("controller.worker_endpoint: \"ipc:///tmp/x\" is not for other "
                                    "hosts; write tcp://ADDRESS:PORT"));
  const Result option = Run({"up", file, "--set", "hosts=[-oProxyCommand=x]"});
  EXPECT_EQ(option.code, 2);
  EXPECT_THAT(option.output, HasSubstr("hosts[0].host: \"-oProxyCommand=x\" is no host"));
  EXPECT_FALSE(fs::exists(RunDirectory("lockstep")));
}

}  // namespace
}  // namespace lockstep::cli
