#include "tools/bench/program.h"

#include <gtest/gtest.h>

namespace lockstep::bench {
namespace {

ProgramRun Shell(const std::string& script) {
  return {.argv = {"/bin/sh", "-c", script}, .scratch = testing::TempDir()};
}

TEST(ProgramTest, OutputComesBack) {
  const auto output = RunProgram(Shell("echo one; echo two >&2"));
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(*output, "one\ntwo\n");
}

TEST(ProgramTest, FailureTellsHowItEndedAndWhatItPrinted) {
  const Status status = RunProgram(Shell("echo no such device; exit 3")).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(Message(status).find("exit code 3"), std::string::npos) << status;
  EXPECT_NE(Message(status).find("no such device"), std::string::npos) << status;
}

TEST(ProgramTest, ALateProgramIsEnded) {
  ProgramRun run = Shell("exec sleep 100");
  run.timeout = std::chrono::seconds(0);
  EXPECT_EQ(RunProgram(run).status().code(), StatusCode::kDeadlineExceeded);
}

TEST(ProgramTest, NumbersOfARivalAreReadAndOtherLinesPassedOver) {
  const auto numbers = RunRival(Shell("echo warning: slow disk; echo 8_us 1.5; echo rate 2e6"));
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  EXPECT_EQ(*numbers, (Numbers{{"8_us", 1.5}, {"rate", 2e6}}));
  EXPECT_EQ(Get(*numbers, "absent").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace lockstep::bench
