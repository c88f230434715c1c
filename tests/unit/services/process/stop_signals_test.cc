#include "services/process/stop_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace lockstep::process {
namespace {

using namespace std::chrono_literals;

// Runs `body` in a process of its own, where signals may be blocked and the process may end.
// Returns its wait status.
int InChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);  // the test's deadline
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

int ExitCode(const std::function<int()>& body) {
  const int status = InChild(body);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  return WEXITSTATUS(status);
}

// Watches and sends itself `signal`; the exit code tells whether the callback got `expected`.
int StopBy(int signal, const std::string& expected) {
  CatchStopSignals();
  std::promise<std::string> reason;
  auto signals = StopSignals::Watch(0, [&](const std::string& text) { reason.set_value(text); });
  if (!signals.ok()) return 2;
  kill(getpid(), signal);
  return reason.get_future().get() == expected ? 0 : 1;
}

TEST(StopSignalsTest, SignalsBecomeOneCall) {
  EXPECT_EQ(ExitCode([] { return StopBy(SIGTERM, "got SIGTERM"); }), 0);
  EXPECT_EQ(ExitCode([] { return StopBy(SIGINT, "got SIGINT"); }), 0);
}

// Bytes on it are no reason to stop.
TEST(StopSignalsTest, TheEndOfTheInputBecomesACall) {
  EXPECT_EQ(ExitCode([] {
              CatchStopSignals();
              int ends[2];
              if (pipe(ends) != 0 || write(ends[1], "x", 1) != 1) return 2;
              std::promise<std::string> reason;
              auto signals = StopSignals::Watch(
                  0, [&](const std::string& text) { reason.set_value(text); }, ends[0]);
              if (!signals.ok()) return 3;
              std::future<std::string> told = reason.get_future();
              if (told.wait_for(50ms) == std::future_status::ready) return 4;
              close(ends[1]);
              return told.get() == "the standard input has ended" ? 0 : 1;
            }),
            0);
}

TEST(StopSignalsTest, ASignalBeforeTheWatchIsNotLost) {
  EXPECT_EQ(ExitCode([] {
              CatchStopSignals();
              kill(getpid(), SIGTERM);
              std::promise<void> stopped;
              auto signals =
                  StopSignals::Watch(0, [&](const std::string&) { stopped.set_value(); });
              stopped.get_future().wait();
              return 0;
            }),
            0);
}

TEST(StopSignalsTest, ASecondSignalEndsTheProcessAtOnce) {
  EXPECT_EQ(ExitCode([] {
              CatchStopSignals();
              std::promise<void> stopping;
              auto signals =
                  StopSignals::Watch(0, [&](const std::string&) { stopping.set_value(); });
              kill(getpid(), SIGTERM);
              stopping.get_future().wait();
              kill(getpid(), SIGTERM);
              while (true) pause();
              return 0;
            }),
            1);
}

TEST(StopSignalsTest, AStopThatTakesTooLongIsGivenUp) {
  EXPECT_EQ(ExitCode([] {
              CatchStopSignals();
              auto signals = StopSignals::Watch(0, [](const std::string&) {});
              kill(getpid(), SIGTERM);
              while (true) pause();
              return 0;
            }),
            1);
}

// As a function may start them; else they could be ended by SIGKILL alone.
TEST(StopSignalsTest, ProgramsThatAreStartedTakeSignalsAsEverywhere) {
  EXPECT_EQ(ExitCode([] {
              CatchStopSignals();
              // A shell's own words for: signals 2, 13 and 15 neither blocked nor ignored.
              const char* const look =
                  "awk '/^Sig(Blk|Ign):/ { print $2 }' /proc/self/status | "
                  "while read mask; do [ $(( 0x$mask & 0x5002 )) = 0 ] || exit 1; done";
              return std::system(look) == 0 ? 0 : 1;
            }),
            0);
}

TEST(StopSignalsTest, ABrokenPipeIsNoReasonToEnd) {
  EXPECT_EQ(ExitCode([] {
              CatchStopSignals();
              raise(SIGPIPE);
              return 0;
            }),
            0);
}

TEST(StopSignalsTest, TheEndOfTheParentIsSeen) {
  int result[2];
  ASSERT_EQ(pipe(result), 0);
  // This process -> parent -> child; the parent is killed, and the child says what it saw.
  EXPECT_TRUE(WIFSIGNALED(InChild([&] {
    const pid_t parent = getpid();
    int watching[2];
    if (pipe(watching) != 0) return 1;
    if (fork() == 0) {
      alarm(30);
      CatchStopSignals();
      std::promise<std::string> reason;
      auto signals =
          StopSignals::Watch(parent, [&](const std::string& text) { reason.set_value(text); });
      const char ok = signals.ok() ? '1' : '0';
      if (write(watching[1], &ok, 1) != 1) _exit(1);
      const std::string text = reason.get_future().get();
      _exit(write(result[1], text.data(), text.size()) > 0 ? 0 : 1);
    }
    char ok = '0';
    if (read(watching[0], &ok, 1) != 1 || ok != '1') return 1;
    return raise(SIGKILL);
  })));
  close(result[1]);
  char text[100] = {};
  EXPECT_GT(read(result[0], text, sizeof text - 1), 0);
  EXPECT_STREQ(text, "the parent process has ended");
  close(result[0]);
}

TEST(StopSignalsTest, AnotherProcessThanTheParentIsRefused) {
  EXPECT_EQ(ExitCode([] {
              CatchStopSignals();
              const auto signals = StopSignals::Watch(getpid(), [](const std::string&) {});
              return signals.status().code() == StatusCode::kFailedPrecondition ? 0 : 1;
            }),
            0);
}

TEST(StopSignalsTest, WatchingCanEnd) {
  EXPECT_EQ(ExitCode([] {
              CatchStopSignals();
              auto signals = StopSignals::Watch(0, [](const std::string&) {});
              return signals.ok() ? 0 : 1;
            }),
            0);
}

// The end of an input asks for the stop: a second signal would end the test.
class StopRequestTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(pipe(ends_), 0);
    auto request = StopRequest::Watch(/*parent=*/0, ends_[0]);
    ASSERT_TRUE(request.ok()) << request.status();
    request_ = *std::move(request);
  }
  void TearDown() override {
    request_.reset();
    close(ends_[0]);
    Ask();
  }
  void Ask() {
    if (ends_[1] >= 0) close(std::exchange(ends_[1], -1));
  }
  std::future<std::string> Forwarded() {
    request_->Forward([this](const std::string& reason) { reason_.set_value(reason); });
    return reason_.get_future();
  }

  int ends_[2];
  std::promise<std::string> reason_;
  std::unique_ptr<StopRequest> request_;
};

TEST_F(StopRequestTest, WhoForwardsIsCalledOnceItComes) {
  EXPECT_FALSE(request_->Came());
  std::future<std::string> reason = Forwarded();
  EXPECT_EQ(reason.wait_for(20ms), std::future_status::timeout);
  Ask();
  EXPECT_EQ(reason.get(), "the standard input has ended");
  EXPECT_TRUE(request_->Came());
}

TEST_F(StopRequestTest, OneThatCameBeforeIsForwardedAtOnce) {
  Ask();
  while (!request_->Came()) std::this_thread::yield();
  EXPECT_EQ(Forwarded().wait_for(0s), std::future_status::ready);
}

TEST_F(StopRequestTest, WhoIsNotTheParentIsNotWatched) {
  EXPECT_EQ(StopRequest::Watch(getpid(), -1).status().code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lockstep::process
