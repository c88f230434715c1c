#include "runtime/client/failure.h"

#include <gtest/gtest.h>

#include "runtime/control/error_codec.h"

namespace lockstep {
namespace {

control::RemoteError Example() {
  control::RemoteError error;
  error.code = StatusCode::kInternal;
  error.rank = 2;
  error.session = SessionId(5);
  error.command = 17;
  error.function = "lockstep.fail";
  error.message = "expected 2, got 3";
  error.stack = "  File \"kernel.py\", line 7";
  return error;
}

TEST(FailureTest, EverythingIsThere) {
  const std::optional<Failure> failure = FailureOf(Example().ToStatus());
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->rank, 2);
  EXPECT_EQ(failure->session, SessionId(5));
  EXPECT_EQ(failure->command, 17u);
  EXPECT_EQ(failure->function, "lockstep.fail");
  EXPECT_EQ(failure->message, "expected 2, got 3");
  EXPECT_EQ(failure->stack, "  File \"kernel.py\", line 7");
}

TEST(FailureTest, AnAnnotationKeepsIt) {
  const Status annotated = Annotate(Example().ToStatus(), "while training");
  ASSERT_TRUE(FailureOf(annotated).has_value());
  EXPECT_EQ(FailureOf(annotated)->command, 17u);
}

// Of "send to next group" only "send" was told, and the place twice.
TEST(FailureTest, NamesOfSeveralWordsAreWhole) {
  for (const char* const name : {"send to next group", "get function", "two\nlines", ""}) {
    control::RemoteError error = Example();
    error.function = name;
    const std::optional<Failure> failure = FailureOf(error.ToStatus());
    ASSERT_TRUE(failure.has_value());
    EXPECT_EQ(failure->function, name);
    EXPECT_EQ(failure->message, "expected 2, got 3");
  }
}

TEST(FailureTest, OtherStatusesTellOfNone) {
  EXPECT_FALSE(FailureOf(OkStatus()).has_value());
  EXPECT_FALSE(FailureOf(InvalidArgument("a null DRef")).has_value());
}

}  // namespace
}  // namespace lockstep
