#include "runtime/base/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace lockstep {
namespace {

TEST(StatusTest, MessageIsWhatAStreamWouldPrint) {
  const Status status = InvalidArgument("rank ", 3, " of ", 2.5, std::string(" is bad"));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(status), "rank 3 of 2.5 is bad");
}

TEST(StatusTest, MakersSetTheirCodes) {
  EXPECT_EQ(NotFound("x").code(), StatusCode::kNotFound);
  EXPECT_EQ(AlreadyExists("x").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(FailedPrecondition("x").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(OutOfRange("x").code(), StatusCode::kOutOfRange);
  EXPECT_EQ(ResourceExhausted("x").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(DeadlineExceeded("x").code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Unavailable("x").code(), StatusCode::kUnavailable);
  EXPECT_EQ(Aborted("x").code(), StatusCode::kAborted);
  EXPECT_EQ(Unimplemented("x").code(), StatusCode::kUnimplemented);
  EXPECT_EQ(PermissionDenied("x").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(Internal("x").code(), StatusCode::kInternal);
}

TEST(StatusTest, AnnotateKeepsCodeAndBacktrace) {
  const Status status = Annotate(WithBacktrace(NotFound("no file"), "at f()"), "loading");
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(Message(status), "loading: no file");
  EXPECT_EQ(Backtrace(status), "at f()");
  EXPECT_TRUE(Annotate(OkStatus(), "loading").ok());
}

TEST(StatusTest, BacktraceIsEmptyWhereThereIsNone) {
  EXPECT_EQ(Backtrace(Internal("x")), "");
  EXPECT_EQ(Backtrace(WithBacktrace(OkStatus(), "at f()")), "");
}

TEST(StatusMacroTest, ReturnIfErrorStopsAtTheFirstError) {
  int reached = 0;
  const auto run = [&](const Status& first) -> Status {
    LOCKSTEP_RETURN_IF_ERROR(first);
    ++reached;
    return Aborted("second");
  };
  EXPECT_EQ(run(NotFound("first")).code(), StatusCode::kNotFound);
  EXPECT_EQ(reached, 0);
  EXPECT_EQ(run(OkStatus()).code(), StatusCode::kAborted);
  EXPECT_EQ(reached, 1);
}

TEST(StatusMacroTest, AssignOrReturnMovesTheValueOut) {
  const auto run = [](StatusOr<std::unique_ptr<int>> value) -> StatusOr<int> {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<int> held, std::move(value));
    return *held + 1;
  };
  EXPECT_EQ(*run(std::make_unique<int>(4)), 5);
  EXPECT_EQ(run(NotFound("none")).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace lockstep
