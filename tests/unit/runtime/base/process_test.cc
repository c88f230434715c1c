#include "runtime/base/process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <fstream>

#include <filesystem>
#include <string>
#include <utility>

#include "tests/support/child.h"

namespace lockstep {
namespace {

using support::Child;

TEST(WatchedProcessTest, EndsWithItsProcess) {
  Child child;
  const auto process = WatchedProcess::Watch(child.pid());
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_FALSE(process->HasEnded());
  child.End();
  EXPECT_TRUE(process->HasEnded());
}

TEST(WatchedProcessTest, ThisProcessLives) {
  const auto process = WatchedProcess::Watch(getpid());
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_FALSE(process->HasEnded());
}

// kill() takes these for groups of processes, which live for ever.
TEST(WatchedProcessTest, NumbersThatNoProcessHasAreRefused) {
  for (int pid : {0, -1, -getpid()}) {
    EXPECT_EQ(WatchedProcess::Watch(pid).status().code(), StatusCode::kInvalidArgument) << pid;
  }
}

TEST(WatchedProcessTest, ProcessThatHasEndedIsNotFound) {
  Child child;
  const pid_t pid = child.pid();
  child.End();
  EXPECT_EQ(WatchedProcess::Watch(pid).status().code(), StatusCode::kNotFound);
}

TEST(WatchedProcessTest, MovedOneStillWatches) {
  Child child;
  auto process = WatchedProcess::Watch(child.pid());
  ASSERT_TRUE(process.ok()) << process.status();
  const WatchedProcess moved = *std::move(process);
  EXPECT_FALSE(moved.HasEnded());
  child.End();
  EXPECT_TRUE(moved.HasEnded());
}

TEST(WatchedProcessTest, FilesThatItMapsAreSeenWhetherTheyHaveANameOrNot) {
  const int nameless = memfd_create("maps-test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(nameless, 4096), 0);
  void* const memory = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, nameless, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Child child;  // maps what its parent does
  auto process = WatchedProcess::Watch(child.pid());
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(*process->Maps("memfd:maps-test"), true);
  EXPECT_EQ(*process->Maps("maps-test"), false) << "the end of a name is another name";
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").filename();
  EXPECT_EQ(*process->Maps(program), true) << "its program, which has one";
  munmap(memory, 4096);
  close(nameless);
  EXPECT_EQ(*process->Maps("memfd:maps-test"), true);
  EXPECT_EQ(*WatchedProcess::Watch(getpid())->Maps("memfd:maps-test"), false);
  child.End();
  EXPECT_EQ(process->Maps("memfd:maps-test").status().code(), StatusCode::kNotFound);
}

}  // namespace

namespace {

// A process of this program that ends by `end`, and a descriptor for it.
class Ending {
 public:
  template <typename F>
  explicit Ending(F end) : pid_(fork()) {
    if (pid_ == 0) {
      end();
      _exit(99);
    }
    pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
    EXPECT_GE(pidfd_, 0);
    pollfd entry{pidfd_, POLLIN, 0};
    EXPECT_EQ(poll(&entry, 1, 10'000), 1);
  }
  ~Ending() {
    Reap();
    close(pidfd_);
  }
  void Reap() {
    if (!reaped_) waitpid(pid_, nullptr, 0);
    reaped_ = true;
  }
  ExitStatus Ask() const { return ExitStatusOf(pidfd_, pid_); }

 private:
  pid_t pid_;
  int pidfd_ = -1;
  bool reaped_ = false;
};

TEST(OomKillsTest, AreReadFromWhatTheKernelCounts) {
  const std::string file = testing::TempDir() + "/vmstat";
  std::ofstream(file) << "nr_free_pages 12\nnumber 3\noom_kill 7\nlast 1\n";
  EXPECT_EQ(CountOomKills(file), 7u);
  std::ofstream(file) << "nr_free_pages 12\n";
  EXPECT_EQ(CountOomKills(file), std::nullopt);
  EXPECT_EQ(CountOomKills("/no/such/file"), std::nullopt);
}

TEST(ExitStatusTest, ZombiesTellTheirExitCode) {
  Ending ending([] { _exit(3); });
  EXPECT_EQ(ending.Ask().Describe(), "ended with exit code 3");
  EXPECT_FALSE(ending.Ask().ok());
}

TEST(ExitStatusTest, ZombiesTellTheirSignal) {
  Ending ending([] { raise(SIGKILL); });
  EXPECT_EQ(ending.Ask().Describe(), "was killed by signal 9 (Killed)");
}

// Runs `check` in a process of another user than root. Its processes are as dumpable as is said,
// which decides what /proc shows of them even to that user.
template <typename Check>
void RunAsUser(bool dumpable, Check check) {
  if (geteuid() != 0) GTEST_SKIP() << "the other tests ran as a user";
  const pid_t user = fork();
  if (user == 0) {
    constexpr uid_t kNoRank = 65534;
    if (setresgid(kNoRank, kNoRank, kNoRank) != 0 || setresuid(kNoRank, kNoRank, kNoRank) != 0) {
      _exit(2);
    }
    prctl(PR_SET_DUMPABLE, dumpable ? 1 : 0);
    Ending failure([] { _exit(3); });
    Ending success([] { _exit(0); });
    _exit(check(failure.Ask(), success.Ask()) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(user, &status, 0), user);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) GTEST_SKIP() << "this sandbox has one user";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(ExitStatusTest, UsersLearnHowTheirOwnProcessesEnded) {
  RunAsUser(/*dumpable=*/true, [](const ExitStatus& failure, const ExitStatus& success) {
    return failure.known && failure.code == 3 && success.ok();
  });
}

// Some kernels show it all the same; others show a zero, which must not be taken for success.
TEST(ExitStatusTest, WhatIsHiddenFromUsersIsNeverToldWrong) {
  RunAsUser(/*dumpable=*/false, [](const ExitStatus& failure, const ExitStatus& success) {
    return (!failure.known || failure.code == 3) && (!success.known || success.ok());
  });
}

TEST(ExitStatusTest, SuccessIsKnownToBeOne) {
  Ending ending([] { _exit(0); });
  EXPECT_TRUE(ending.Ask().ok());
}

// Linux before 6.15 forgets it then; what must not happen is a wrong answer.
TEST(ExitStatusTest, ReapedProcessesAreNeverToldWrong) {
  Ending ending([] { raise(SIGTERM); });
  ending.Reap();
  const ExitStatus status = ending.Ask();
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(!status.known || status.signal == SIGTERM) << status.Describe();
}

TEST(ExitStatusTest, ProcessesThatRunAreNotKnown) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  EXPECT_FALSE(ExitStatusOf(pidfd, getpid()).known);
  close(pidfd);
}

}  // namespace

}  // namespace lockstep
