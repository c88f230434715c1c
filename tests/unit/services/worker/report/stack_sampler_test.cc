#include "services/worker/report/stack_sampler.h"
#include "tests/support/patience.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::worker {

std::atomic<bool> stop{false};
std::atomic<int> inside{0};

// Found by their names in the stacks.
__attribute__((noinline)) void SpinForTheTest() {
  ++inside;
  while (!stop) {
  }
  --inside;
}
__attribute__((noinline)) void SleepForTheTest() {
  // ThreadSanitizer (of LLVM 14) loses a signal that meets the first wait of a thread.
  std::this_thread::sleep_for(std::chrono::microseconds(1));
  ++inside;
  while (!stop) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  --inside;
}

namespace {

using testing::Contains;
using testing::HasSubstr;
using namespace std::chrono_literals;

class StackSamplerTest : public testing::Test {
 protected:
  void Run(void (*function)()) {
    thread_ = std::thread(function);
    while (inside == 0) std::this_thread::yield();
  }
  void TearDown() override {
    stop = true;
    if (thread_.joinable()) thread_.join();
    stop = false;
  }
  std::thread thread_;
};

TEST_F(StackSamplerTest, ThreadsThatComputeAreSeen) {
  Run(SpinForTheTest);
  for (int i = 0; i < 20; ++i) {
    const auto stack = SampleStack(thread_.native_handle(), support::kLong);
    ASSERT_TRUE(stack.ok()) << stack.status();
    EXPECT_THAT(*stack, Contains(HasSubstr("SpinForTheTest")));
  }
}

TEST_F(StackSamplerTest, ThreadsThatWaitInTheKernelAreSeenAndGoOn) {
  Run(SleepForTheTest);
  const auto stack = SampleStack(thread_.native_handle(), support::kLong);
  ASSERT_TRUE(stack.ok()) << stack.status();
  EXPECT_THAT(*stack, Contains(HasSubstr("SleepForTheTest")));
  EXPECT_EQ(inside, 1);
}

TEST(NameOfLibraryTest, FragmentsAreCalledAsTheirMemoryIs) {
  EXPECT_EQ(NameOfLibrary("/usr/lib/libm.so.6"), "libm.so.6");
  EXPECT_EQ(NameOfLibrary("libm.so.6"), "libm.so.6");
  EXPECT_EQ(NameOfLibrary("/proc/self/fd/-1"), "-1");
  const int memory = memfd_create("lockstep-fragment:a/b", MFD_CLOEXEC);
  ASSERT_GE(memory, 0);
  EXPECT_EQ(NameOfLibrary(("/proc/self/fd/" + std::to_string(memory)).c_str()),
            "lockstep-fragment:a/b");
  close(memory);
}

TEST_F(StackSamplerTest, SeveralMayAskAtOnce) {
  Run(SpinForTheTest);
  std::vector<std::thread> askers;
  std::atomic<int> seen{0};
  for (int i = 0; i < 4; ++i) {
    askers.emplace_back([&] {
      const auto stack = SampleStack(thread_.native_handle(), support::kLong);
      if (stack.ok() && !stack->empty()) ++seen;
    });
  }
  for (std::thread& asker : askers) asker.join();
  EXPECT_EQ(seen, 4);
}

TEST_F(StackSamplerTest, ThreadsThatTakeNoSignalAreReported) {
  Run([] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    SleepForTheTest();
  });
  const auto stack = SampleStack(thread_.native_handle(), 20ms);
  EXPECT_EQ(stack.status().code(), StatusCode::kDeadlineExceeded) << stack.status();
  // What comes late is not taken for the answer of another thread.
  std::thread other(SpinForTheTest);
  while (inside < 2) std::this_thread::yield();
  const auto next = SampleStack(other.native_handle(), support::kLong);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_THAT(*next, Contains(HasSubstr("SpinForTheTest")));
  stop = true;
  other.join();
}

// The last test of this file: the handler stays.
TEST_F(StackSamplerTest, HandlersOfTheProgramAreLeftAlone) {
  struct sigaction ours = {};
  struct sigaction before = {};
  ours.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGURG, &ours, &before), 0);
  EXPECT_EQ(SampleStack(pthread_self(), support::kLong).status().code(),
            StatusCode::kFailedPrecondition);
  struct sigaction after = {};
  ASSERT_EQ(sigaction(SIGURG, &before, &after), 0);
  EXPECT_EQ(after.sa_handler, ours.sa_handler);
}

}  // namespace
}  // namespace lockstep::worker
