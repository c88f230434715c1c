#include "runtime/control/error_codec.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep::control {
namespace {

RemoteError ExampleError() {
  RemoteError error;
  error.code = StatusCode::kInternal;
  error.rank = 2;
  error.session = SessionId(5);
  error.command = 17;
  error.function = "lockstep.fail";
  error.message = "expected 2, got 3";
  error.stack = "  File \"kernel.py\", line 7";
  return error;
}

// Over the wire and back.
RemoteError RoundTrip(const RemoteError& error) {
  capnp::MallocMessageBuilder message;
  WriteError(message.initRoot<wire::Error>(), error);
  return ReadError(message.getRoot<wire::Error>().asReader());
}

void ExpectEqual(const RemoteError& a, const RemoteError& b) {
  EXPECT_EQ(a.code, b.code);
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_EQ(a.session, b.session);
  EXPECT_EQ(a.command, b.command);
  EXPECT_EQ(a.function, b.function);
  EXPECT_EQ(a.message, b.message);
  EXPECT_EQ(a.stack, b.stack);
}

TEST(ErrorCodecTest, AllFieldsCrossTheWire) {
  ExpectEqual(RoundTrip(ExampleError()), ExampleError());
}

TEST(ErrorCodecTest, TextWithZeroBytesCrossesTheWire) {
  RemoteError error = ExampleError();
  error.message = std::string("a\0b", 3) + std::string(8000, 'm');
  error.stack.clear();
  ExpectEqual(RoundTrip(error), error);
}

TEST(ErrorCodecTest, TextOfAnySizeIsCutToWhatAllRanksCanBeTold) {
  RemoteError error = ExampleError();
  error.message.clear();
  for (int i = 0; i < 1'000'000; ++i) error.message += "\u20ac";  // three bytes each
  error.stack = std::string(1'000'000, 's');
  const RemoteError read = RoundTrip(RoundTrip(error));  // by way of the controller
  EXPECT_LT(read.message.size(), size_t{10} << 10);
  EXPECT_LT(read.stack.size(), size_t{20} << 10);
  const std::string ending = "... (3000000 bytes)";
  ASSERT_TRUE(read.message.ends_with(ending));
  EXPECT_EQ((read.message.size() - ending.size()) % 3, 0u) << "no character is cut in two";
}

TEST(ErrorCodecTest, EveryCodeOfAStatusSurvives) {
  for (int code = 1; code <= 16; ++code) {
    RemoteError error;
    error.code = static_cast<StatusCode>(code);
    EXPECT_EQ(RoundTrip(error).code, error.code) << code;
    EXPECT_FALSE(RoundTrip(error).ok()) << code;
  }
}

// A peer's bug must not turn a failure into a success.
TEST(ErrorCodecTest, OkAndUnknownCodesAreReadAsUnknownErrors) {
  for (uint16_t code : {0, 17, 999, 65535}) {
    capnp::MallocMessageBuilder message;
    auto builder = message.initRoot<wire::Error>();
    builder.setCode(code);
    builder.setMessage("strange");
    const RemoteError error = ReadError(builder.asReader());
    EXPECT_EQ(error.code, StatusCode::kUnknown) << code;
    EXPECT_EQ(lockstep::Message(error.ToStatus()), "strange");
  }
}

TEST(ErrorCodecTest, StatusNamesThePlace) {
  RemoteError error = ExampleError();
  EXPECT_EQ(lockstep::Message(error.ToStatus()),
            "rank 2, command 17, lockstep.fail: expected 2, got 3\nremote stack:\n"
            "  File \"kernel.py\", line 7");
  error.stack.clear();
  error.rank = -1;
  EXPECT_EQ(lockstep::Message(error.ToStatus()), "command 17, lockstep.fail: expected 2, got 3");
  error.command = 0;
  EXPECT_EQ(lockstep::Message(error.ToStatus()), "lockstep.fail: expected 2, got 3");
  error.function.clear();
  EXPECT_EQ(lockstep::Message(error.ToStatus()), "expected 2, got 3");
  error.rank = 0;
  EXPECT_EQ(lockstep::Message(error.ToStatus()), "rank 0: expected 2, got 3");
}

// It said "[lockstep/failure='session 0, rank -1, command 0, function ']".
TEST(ErrorCodecTest, PartsThatAreNotKnownAreNotPrinted) {
  RemoteError error;
  error.code = StatusCode::kUnavailable;
  error.message = "busy";
  EXPECT_EQ(error.ToStatus().ToString(), "UNAVAILABLE: busy");
  EXPECT_FALSE(RemoteErrorIn(error.ToStatus()).has_value());
  error.session = SessionId(5);
  EXPECT_EQ(error.ToStatus().ToString(), "UNAVAILABLE: busy [lockstep/failure='session 5']");
  error.rank = 0;
  error.function = "send, to next";
  EXPECT_EQ(error.ToStatus().ToString(),
            "UNAVAILABLE: rank 0, send, to next: busy "
            "[lockstep/failure='session 5, rank 0, function send, to next']");
  const auto read = RemoteErrorIn(error.ToStatus());
  ASSERT_TRUE(read.has_value());
  ExpectEqual(*read, error);
}

TEST(ErrorCodecTest, NoErrorIsOk) {
  EXPECT_TRUE(RemoteError().ok());
  EXPECT_TRUE(RemoteError().ToStatus().ok());
}

TEST(ErrorCodecTest, ErrorOfKeepsCodeAndMessage) {
  const RemoteError error = ErrorOf(Unavailable("gone"));
  EXPECT_EQ(error.code, StatusCode::kUnavailable);
  EXPECT_EQ(error.message, "gone");
  EXPECT_EQ(error.rank, -1);
  EXPECT_EQ(error.command, 0u);
}

}  // namespace
}  // namespace lockstep::control
