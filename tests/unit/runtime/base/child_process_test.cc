#include "runtime/base/child_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include "tests/support/files.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

class ChildProcessTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return directory_.File(name); }

  ChildOptions Shell(const std::string& script) const {
    return {.argv = {"/bin/sh", "-c", script}, .environment = {}, .log_path = Path("log")};
  }

  // Runs a script to its end.
  ExitStatus Run(const ChildOptions& options) {
    StatusOr<ChildProcess> child = ChildProcess::Spawn(options);
    EXPECT_TRUE(child.ok()) << child.status();
    StatusOr<ExitStatus> status = child->Wait(Deadline::After(10s));
    EXPECT_TRUE(status.ok()) << status.status();
    return *status;
  }

  // A shell that says "ready" when its traps are set, and then sleeps.
  StatusOr<ChildProcess> SpawnReady(const std::string& prelude, bool detached = false) {
    ChildOptions options =
        Shell(prelude + "; mkfifo " + Path("fifo") + "; echo ready > " + Path("ready.new") +
              "; mv " + Path("ready.new") + " " + Path("ready") + "; while :; do read line < " +
              Path("fifo") + "; done");
    options.detached = detached;
    StatusOr<ChildProcess> child = ChildProcess::Spawn(options);
    const Deadline deadline = Deadline::After(10s);
    while (!std::filesystem::exists(Path("ready")) && !deadline.Expired())
      std::this_thread::yield();
    return child;
  }

  const support::ScratchDirectory directory_;
};

TEST_F(ChildProcessTest, ExitCodesAndSignalsAreTold) {
  EXPECT_TRUE(Run(Shell("exit 0")).ok());
  const ExitStatus three = Run(Shell("exit 3"));
  EXPECT_FALSE(three.ok());
  EXPECT_EQ(three.Describe(), "ended with exit code 3");
  EXPECT_EQ(Run(Shell("kill -9 $$")).Describe(), "was killed by signal 9 (Killed)");
}

TEST_F(ChildProcessTest, OutputGoesToTheLogAndIsAppended) {
  Run(Shell("echo out; echo err >&2"));
  Run(Shell("echo again"));
  EXPECT_EQ(support::ReadFile(Path("log")), "out\nerr\nagain\n");
}

TEST_F(ChildProcessTest, EnvironmentIsAddedAndReplaced) {
  setenv("LOCKSTEP_TEST_A", "old", 1);
  setenv("LOCKSTEP_TEST_AB", "kept", 1);
  ChildOptions options = Shell("echo $LOCKSTEP_TEST_A $LOCKSTEP_TEST_AB $LOCKSTEP_TEST_C");
  options.environment = {"LOCKSTEP_TEST_A=new", "LOCKSTEP_TEST_C=added"};
  Run(options);
  EXPECT_EQ(support::ReadFile(Path("log")), "new kept added\n");
}

TEST_F(ChildProcessTest, OutputAndErrorsGoWhereTheyAreTold) {
  int output[2];
  ASSERT_EQ(pipe(output), 0);
  ChildOptions options = Shell("echo out; echo err >&2");
  options.output_fd = output[1];
  EXPECT_TRUE(Run(options).ok());
  close(output[1]);
  char text[16] = {};
  EXPECT_EQ(read(output[0], text, sizeof text), 4);
  EXPECT_STREQ(text, "out\n");
  close(output[0]);
  EXPECT_EQ(support::ReadFile(Path("log")), "err\n");
}

TEST_F(ChildProcessTest, EnvironmentCanBeTheChildsOwn) {
  setenv("LOCKSTEP_TEST_SECRET", "secret", 1);
  ChildOptions options = Shell("echo [$LOCKSTEP_TEST_SECRET] $LOCKSTEP_TEST_A");
  options.environment = {"LOCKSTEP_TEST_A=given"};
  options.only_this_environment = true;
  Run(options);
  EXPECT_EQ(support::ReadFile(Path("log")), "[] given\n");
}

TEST_F(ChildProcessTest, ChildrenInheritNoInputDescriptorsOrBlockedSignals) {
  int inherited[2];
  ASSERT_EQ(pipe(inherited), 0);  // without O_CLOEXEC
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  // Of a program that the shell starts: the shell itself holds others for a moment, at times.
  Run(Shell("cat; ls /proc/self/fd; kill $$; echo survived"));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(inherited[0]);
  close(inherited[1]);
  EXPECT_EQ(support::ReadFile(Path("log")), "0\n1\n2\n3\n")
      << "the last is the directory that is listed";
}

TEST_F(ChildProcessTest, ProgramsThatCannotRunAreErrors) {
  ChildOptions options;
  EXPECT_EQ(ChildProcess::Spawn(options).status().code(), StatusCode::kInvalidArgument);
  options.argv = {"/nonexistent/program"};
  const Status status = ChildProcess::Spawn(options).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(Message(status).find("/nonexistent/program"), std::string::npos);
  options.argv = {"/etc/passwd"};
  EXPECT_EQ(ChildProcess::Spawn(options).status().code(), StatusCode::kPermissionDenied);
  options.argv = {"/bin/true"};
  options.log_path = "/nonexistent/log";
  EXPECT_EQ(ChildProcess::Spawn(options).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ChildProcessTest, WaitEndsAtItsDeadlineAndCanBeRepeated) {
  StatusOr<ChildProcess> child = SpawnReady(":");
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(child->Wait(Deadline::After(1ms)).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(child->Running());
  child->Signal(SIGKILL);
  pollfd watched{child->pidfd(), POLLIN, 0};
  EXPECT_EQ(poll(&watched, 1, 10'000), 1);
  EXPECT_EQ(child->Wait(Deadline::After(10s))->signal, SIGKILL);
  EXPECT_EQ(child->Wait(Deadline::After(10s))->signal, SIGKILL);
  EXPECT_FALSE(child->Running());
}

TEST_F(ChildProcessTest, TerminateLetsAChildEndInOrder) {
  StatusOr<ChildProcess> child = SpawnReady("trap 'exit 7' TERM");
  ASSERT_TRUE(child.ok()) << child.status();
  const StatusOr<ExitStatus> status = child->Terminate(Deadline::After(10s));
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->code, 7);
}

TEST_F(ChildProcessTest, TerminateKillsAChildThatDoesNotListen) {
  StatusOr<ChildProcess> child = SpawnReady("trap '' TERM");
  ASSERT_TRUE(child.ok()) << child.status();
  const StatusOr<ExitStatus> status = child->Terminate(Deadline::After(20ms));
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->signal, SIGKILL);
}

TEST_F(ChildProcessTest, ARunningChildDoesNotOutliveItsObject) {
  pid_t pid = 0;
  {
    StatusOr<ChildProcess> child = SpawnReady(":");
    ASSERT_TRUE(child.ok()) << child.status();
    pid = child->pid();
    ChildProcess moved = *std::move(child);
    EXPECT_EQ(kill(moved.pid(), 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST_F(ChildProcessTest, AReleasedChildLivesOn) {
  pid_t pid = 0;
  {
    StatusOr<ChildProcess> child = SpawnReady(":", /*detached=*/true);
    ASSERT_TRUE(child.ok()) << child.status();
    pid = child->pid();
    child->Release();
  }
  EXPECT_EQ(kill(pid, 0), 0);
  EXPECT_EQ(getsid(pid), pid) << "a session of its own";
  kill(pid, SIGKILL);
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

TEST_F(ChildProcessTest, ChildrenHaveAProcessGroupOfTheirOwn) {
  StatusOr<ChildProcess> child = SpawnReady(":");
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(getpgid(child->pid()), child->pid());
  EXPECT_EQ(getsid(child->pid()), getsid(0));
}

TEST_F(ChildProcessTest, AChildThatSomebodyElseReapedHasEnded) {
  StatusOr<ChildProcess> child = ChildProcess::Spawn(Shell("exit 3"));
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(waitpid(child->pid(), nullptr, 0), child->pid());
  const StatusOr<ExitStatus> status = child->Wait(Deadline::After(10s));
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_FALSE(status->ok());
  // Kernels since Linux 6.15 tell all the same.
  EXPECT_TRUE(!status->known || status->code == 3) << status->Describe();
}

TEST_F(ChildProcessTest, ThreadsMaySpawnAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this, i] {
      const ChildOptions options{.argv = {"/bin/sh", "-c", "exit " + std::to_string(i)},
                                 .environment = {},
                                 .log_path = Path("log" + std::to_string(i))};
      EXPECT_EQ(Run(options).code, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class FindProgramTest : public ChildProcessTest {
 protected:
  void SetUp() override {
    ChildProcessTest::SetUp();
    path_ = std::getenv("PATH");
    unsetenv("LOCKSTEP_TEST_PROGRAM");
  }
  void TearDown() override {
    setenv("PATH", path_.c_str(), 1);
    unsetenv("LOCKSTEP_TEST_PROGRAM");
    ChildProcessTest::TearDown();
  }
  std::string path_;
};

TEST_F(FindProgramTest, TheVariableWins) {
  setenv("LOCKSTEP_TEST_PROGRAM", "/bin/true", 1);
  EXPECT_EQ(*FindProgram("sh", "LOCKSTEP_TEST_PROGRAM", "none"), "/bin/true");
  setenv("LOCKSTEP_TEST_PROGRAM", "/nonexistent", 1);
  const Status status = FindProgram("sh", "LOCKSTEP_TEST_PROGRAM", "none").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(Message(status).find("$LOCKSTEP_TEST_PROGRAM is \"/nonexistent\""), std::string::npos);
}

TEST_F(FindProgramTest, ThePathIsSearchedLast) {
  const std::string program = Path("lockstep-test-program");
  std::ofstream(program) << "#!/bin/sh\n";
  setenv("PATH", ("/nonexistent::" + directory_.path()).c_str(), 1);
  EXPECT_EQ(FindProgram("lockstep-test-program", "LOCKSTEP_TEST_PROGRAM", "none").status().code(),
            StatusCode::kNotFound)
      << "not executable";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  EXPECT_EQ(*FindProgram("lockstep-test-program", "LOCKSTEP_TEST_PROGRAM", "none"), program);
}

TEST_F(FindProgramTest, WhatIsNowhereSaysWhereItWasLookedFor) {
  const Status status =
      FindProgram("lockstep-nonexistent", "LOCKSTEP_TEST_PROGRAM", "none").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  for (const char* part : {"lockstep-nonexistent", "PATH", "$LOCKSTEP_TEST_PROGRAM"}) {
    EXPECT_NE(Message(status).find(part), std::string::npos) << Message(status);
  }
}

}  // namespace
}  // namespace lockstep
