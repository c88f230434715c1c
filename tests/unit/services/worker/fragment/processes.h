// Processes that begin at once.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <vector>

namespace lockstep::worker {

// Runs `work` in `count` processes, numbered from 0, which all wait until the last of them is
// there. Their exit codes.
inline std::vector<int> RunAtOnce(int count, const std::function<int(int)>& work) {
  std::array<int, 2> barrier{};
  EXPECT_EQ(pipe(barrier.data()), 0);
  std::vector<pid_t> pids;
  for (int i = 0; i < count; ++i) {
    const pid_t pid = fork();
    EXPECT_GE(pid, 0);
    if (pid == 0) {
      close(barrier[1]);
      char end = 0;
      // Until the parent closes its end.
      if (read(barrier[0], &end, 1) != 0) _exit(90);
      _exit(work(i));
    }
    pids.push_back(pid);
  }
  close(barrier[0]);
  close(barrier[1]);
  std::vector<int> codes;
  for (const pid_t pid : pids) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  return codes;
}

}  // namespace lockstep::worker
