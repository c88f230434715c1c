#include "tools/cli/command_line.h"

#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

TEST(ExitCodeTest, OkIsZeroAndPlainErrorsAreOne) {
  EXPECT_EQ(ExitCodeOf(OkStatus()), ExitCode::kOk);
  EXPECT_EQ(ExitCodeOf(Internal("broken")), ExitCode::kFailed);
}

TEST(ExitCodeTest, AttachedCodeWins) {
  const Status status = WithExitCode(Unavailable("nobody"), ExitCode::kUnreachable);
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUnreachable);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(Message(status), "nobody");
  EXPECT_EQ(ExitCodeOf(UsageError("a", 1)), ExitCode::kUsage);
}

TEST(ExitCodeTest, OkStaysOk) {
  EXPECT_EQ(ExitCodeOf(WithExitCode(OkStatus(), ExitCode::kUsage)), ExitCode::kOk);
}

}  // namespace
}  // namespace lockstep::cli
