#include "runtime/base/exit_status.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {
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
    constexpr uid_t kNobody = 65534;
    if (setresgid(kNobody, kNobody, kNobody) != 0 || setresuid(kNobody, kNobody, kNobody) != 0) {
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
