#include "services/worker/output/output_forwarder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/control/message_codec.h"
#include "schemas/control.capnp.h"
#include "services/worker/output/output_redirect.h"

namespace lockstep::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Keeps what it is given to send. The forwarder's lock guards it while it is lent.
class KeepingChannel final : public control::ClientChannel {
 public:
  Status Send(const control::Message& message) override {
    EXPECT_EQ(message.size(), 2u);
    EXPECT_EQ(control::DecodeMessage<wire::WorkerMessage>(message[0],
                                                          [&](wire::WorkerMessage::Reader reader) {
                                                            sessions_.push_back(
                                                                reader.getOutput().getSession());
                                                            return OkStatus();
                                                          }),
              OkStatus());
    return control::DecodeMessage<wire::OutputLines>(
        message[1], [&](wire::OutputLines::Reader reader) {
          for (auto line : reader.getLines()) {
            const auto text = line.getText();
            lines_.emplace_back(reinterpret_cast<const char*>(text.begin()), text.size());
          }
          return OkStatus();
        });
  }
  bool Receive(control::Message*) override { return false; }
  bool HasInput() override { return false; }
  int wait_fd() const override { return -1; }
  bool drained() const override { return true; }

  const std::vector<std::string>& lines() const { return lines_; }
  const std::vector<uint32_t>& sessions() const { return sessions_; }

 private:
  std::vector<std::string> lines_;
  std::vector<uint32_t> sessions_;
};

// This program's output goes to a file meanwhile, as a service's goes to its log.
class OutputForwarderTest : public testing::Test {
 protected:
  void SetUp() override {
    log_path_ = testing::TempDir() + "/output-forwarder-" + std::to_string(getpid());
    std::fflush(stdout);
    saved_[0] = dup(STDOUT_FILENO);
    saved_[1] = dup(STDERR_FILENO);
    const int log = open(log_path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0600);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    close(log);
    auto forwarder = OutputForwarder::Create();
    ASSERT_TRUE(forwarder.ok()) << forwarder.status();
    forwarder_ = *std::move(forwarder);
  }
  void TearDown() override {
    forwarder_.reset();
    std::fflush(stdout);
    dup2(saved_[0], STDOUT_FILENO);
    dup2(saved_[1], STDERR_FILENO);
    close(saved_[0]);
    close(saved_[1]);
    unlink(log_path_.c_str());
  }
  static void Print(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }
  std::string Log() const {
    std::ostringstream text;
    text << std::ifstream(log_path_).rdbuf();
    return text.str();
  }

  std::string log_path_;
  int saved_[2] = {-1, -1};
  KeepingChannel controller_;
  std::unique_ptr<OutputForwarder> forwarder_;
};

TEST_F(OutputForwarderTest, WhatIsPrintedMeanwhileIsSentAndLogged) {
  Print("before\n");
  forwarder_->Begin(SessionId(7), controller_);
  Print("meanwhile\n");
  forwarder_->End();
  Print("after\n");
  EXPECT_THAT(controller_.lines(), ElementsAre("meanwhile"));
  EXPECT_THAT(controller_.sessions(), ElementsAre(7u));
  EXPECT_EQ(Log(), "before\nmeanwhile\nafter\n");
}

TEST_F(OutputForwarderTest, WhatLiesInTheStandardBufferIsSentToo) {
  forwarder_->Begin(SessionId(7), controller_);
  std::fputs("no newline, no flush", stdout);
  forwarder_->End();
  EXPECT_THAT(controller_.lines(), ElementsAre("no newline, no flush"));
}

TEST_F(OutputForwarderTest, SilenceSendsNothing) {
  forwarder_->Begin(SessionId(7), controller_);
  forwarder_->End();
  EXPECT_THAT(controller_.lines(), IsEmpty());
}

TEST_F(OutputForwarderTest, FasterThanThePipeHoldsNobodyUp) {
  const std::string line = std::string(1023, 'x') + "\n";
  forwarder_->Begin(SessionId(7), controller_);
  for (int i = 0; i < 10'000; ++i) Print(line);
  forwarder_->End();
  EXPECT_EQ(Log().size(), size_t{10'000} * line.size()) << "the log has all of it";
  EXPECT_THAT(controller_.lines(), Not(IsEmpty()));
}

TEST_F(OutputForwarderTest, ProcessThatIsLeftBehindPrintsForTheLogAlone) {
  int go_on[2];
  ASSERT_EQ(pipe(go_on), 0);
  forwarder_->Begin(SessionId(7), controller_);
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    close(go_on[1]);
    (void)!read(go_on[0], &byte, 1);
    (void)!write(STDOUT_FILENO, "late\n", 5);
    _exit(0);
  }
  forwarder_->End();
  close(go_on[0]);
  close(go_on[1]);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  while (Log().empty()) std::this_thread::yield();
  EXPECT_EQ(Log(), "late\n");
  EXPECT_THAT(controller_.lines(), IsEmpty());
}

// A process may be started without them. What is read must not come back as if it were printed.
TEST_F(OutputForwarderTest, WithoutStandardStreamsWhatIsPrintedIsReadOnce) {
  forwarder_.reset();
  const int log = dup(STDOUT_FILENO);
  close(STDOUT_FILENO);
  close(STDERR_FILENO);
  std::string text;
  size_t left = 0;
  auto redirect = OutputRedirect::Create();
  if (redirect.ok()) {
    char buffer[16];
    (*redirect)->Begin();
    (void)!write(STDOUT_FILENO, "meanwhile\n", 10);
    text = (*redirect)->Read(OutputStream::kStdout, absl::MakeSpan(buffer));
    left = (*redirect)->Available(OutputStream::kStdout);
    (*redirect)->End();
  }
  const Status status = redirect.status();
  redirect = Internal("it is over");
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  close(log);
  EXPECT_EQ(status, OkStatus());
  EXPECT_EQ(text, "meanwhile\n");
  EXPECT_EQ(left, 0u);
}

// What a process says last is said where people will look for it.
void DieWhileForwarding(int signal) {
  const auto forwarder = OutputForwarder::Create();
  KeepingChannel controller;
  (*forwarder)->Begin(SessionId(7), controller);
  (void)!write(STDERR_FILENO, "last words\n", 11);
  signal == SIGABRT ? std::abort() : (void)raise(signal);
}

TEST(OutputForwarderDeathTest, LastWordsBeforeAnAbortReachTheLog) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(DieWhileForwarding(SIGABRT), testing::KilledBySignal(SIGABRT), "last words");
}

// A sanitizer has a handler for it, which comes afterwards and ends the process in its own way.
TEST(OutputForwarderDeathTest, LastWordsBeforeAFaultReachTheLog) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(DieWhileForwarding(SIGFPE), "last words");
}

// The log takes nothing for a while: another thread has what it took from the pipe in its hands.
[[noreturn]] void DieWhileAnotherThreadWrites() {
  int log[2];
  const int said = dup(STDERR_FILENO);
  if (pipe(log) != 0) _exit(1);
  const std::string page(4096, 'x');
  fcntl(log[1], F_SETFL, O_NONBLOCK);
  while (write(log[1], page.data(), page.size()) > 0) continue;
  fcntl(log[1], F_SETFL, 0);
  dup2(log[1], STDOUT_FILENO);
  const auto redirect = OutputRedirect::Create();
  (*redirect)->Begin();
  (void)!write(STDOUT_FILENO, "first\n", 6);
  std::thread writer([&] {
    char buffer[16];
    (void)(*redirect)->Read(OutputStream::kStdout, absl::MakeSpan(buffer));
  });
  while ((*redirect)->Available(OutputStream::kStdout) > 0) std::this_thread::yield();
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // meanwhile it dies
    (void)!write(said, "the log is read\n", 16);
    std::string room(page);
    while (read(log[0], room.data(), room.size()) > 0) continue;
  });
  std::abort();
}

TEST(OutputForwarderDeathTest, LastWordsComeAfterWhatOtherThreadsAreWriting) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(DieWhileAnotherThreadWrites(), testing::KilledBySignal(SIGABRT),
              "the log is read\nkilled by a signal");
}

}  // namespace
}  // namespace lockstep::worker
