// Ranks for the conformance suite: threads, or child processes.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/shared_segment.h"
#include "tests/conformance/world_under_test.h"

namespace lockstep::collective {

using Body = std::function<void(RankUnderTest&)>;

inline void RunThreads(int size, const std::function<void(int)>& rank_main) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(rank_main, rank);
  for (std::thread& thread : threads) thread.join();
}

// Failures are printed by the child that has them, and make it exit with 1. That a child was killed
// is no failure: a test does so to see what the others make of it.
inline void RunProcesses(int size, const std::function<void(int)>& rank_main) {
  std::fflush(nullptr);  // or the children print it again
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      rank_main(rank);
      std::fflush(nullptr);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    ASSERT_GT(waitpid(children[static_cast<size_t>(rank)], &status, 0), 0);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    EXPECT_TRUE(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        << "the process of rank " << rank << " failed; wait status " << status;
  }
}

inline std::vector<std::string> ArenaNames(int size, const std::string& world) {
  const std::string prefix = std::string(SharedSegment::kNamePrefix) + "conformance-" + world + "-";
  std::vector<std::string> names;
  for (int rank = 0; rank < size; ++rank) names.push_back(prefix + std::to_string(rank));
  return names;
}

// Names that no other process has: sandboxes share /dev/shm and not their process ids.
inline std::vector<std::string> ArenaNames(int size) {
  std::random_device random;
  return ArenaNames(size, std::to_string(random()) + "-" + std::to_string(random()));
}

}  // namespace lockstep::collective
