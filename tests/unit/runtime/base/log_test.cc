#include "runtime/base/log.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

namespace lockstep::log {
namespace {

using namespace std::chrono_literals;

TEST(LogTest, TextHasItsFieldsInFront) {
  EXPECT_EQ(TextOf({}, "all is well"), "all is well");
  EXPECT_EQ(TextOf({.rank = 2, .epoch = 17, .session = 3}, "failed"),
            "rank=2 epoch=17 session=3 failed");
}

TEST(LogTest, WhatOnePartSaysCountsMoreThanWhatTheThreadDoes) {
  Context context{.rank = 1, .epoch = 5};
  context.Add(OfRank(2));
  context.Add(OfSession(7));
  EXPECT_EQ(TextOf(context, "x"), "rank=2 epoch=5 session=7 x");
}

// A client may call itself anything.
TEST(LogTest, NoTextBecomesAnotherLineOrACommandOfATerminal) {
  EXPECT_EQ(TextOf({}, "a\nE forged\r\x1b[2J\t\x7f\xc3\xa9"),
            "a\\nE forged\\x0d\\x1b[2J\\t\\x7f\xc3\xa9");
}

TEST(LogTest, LinesAreBounded) {
  const std::string long_text(kMaxLineBytes + 5, 'x');
  EXPECT_EQ(TextOf({}, long_text), std::string(kMaxLineBytes, 'x') + "... (5 bytes more)");
  EXPECT_LT(JsonOf(Level::kInfo, {}, long_text).size(), kMaxLineBytes + 200);
}

TEST(LogTest, JsonIsWellFormedWhateverTheTextIs) {
  const auto message = [](const std::string& text) {
    const std::string json = JsonOf(Level::kWarning, {}, text);
    return json.substr(json.find("\"message\":") + 10);
  };
  EXPECT_EQ(message("a \"b\" \\ \n\x01"), R"("a \"b\" \\ \u000a\u0001")");
  EXPECT_EQ(message("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
            "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
  EXPECT_EQ(message("\xff\xc3"), R"("\ufffd\ufffd")");
  EXPECT_EQ(message("\xc0\xaf"), R"("\ufffd\ufffd")") << "another way to write a slash";
  EXPECT_EQ(message("\xed\xa0\x80"), R"("\ufffd\ufffd\ufffd")") << "half a character";
  EXPECT_EQ(message(std::string("a\0b", 3)), R"("a\u0000b")");
}

TEST(LogTest, JsonHasItsFields) {
  const std::string json = JsonOf(Level::kError, {.rank = 2, .epoch = 17, .session = 3}, "failed");
  EXPECT_NE(json.find(R"("level":"error")"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("rank":2,"epoch":17,"session":3,"message":"failed")"), std::string::npos)
      << json;
}

// A limit whose minutes the test lets pass, and a log that it reads.
class LimitTest : public testing::Test {
 protected:
  LimitTest() {
    Time() = Limit::Clock::time_point(1h);
    auto logger = std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_st>(lines_));
    logger->set_pattern("%L %v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~LimitTest() override { spdlog::set_default_logger(before_); }

  static Limit::Clock::time_point& Time() {
    static Limit::Clock::time_point time;
    return time;
  }
  // So many warnings, and what the log has got of them.
  std::string Warn(int count = 1) {
    lines_.str("");
    for (int i = 1; i <= count; ++i) limit_.Warn("bad ", i);
    return lines_.str();
  }

  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream lines_;
  Limit limit_{3, [] { return Time(); }};
};

TEST_F(LimitTest, SoManyAreWrittenAMinute) {
  EXPECT_EQ(Warn(2), "W bad 1\nW bad 2\n");
  Time() += 59s;
  EXPECT_EQ(Warn(5), "W bad 1\n") << "the third of this minute is the last";
  EXPECT_EQ(Warn(), "");
}

TEST_F(LimitTest, TheNextMinuteTellsHowManyWereLeftOut) {
  Warn(3 + 5);
  Time() += 1min - 1ns;
  EXPECT_EQ(Warn(2), "") << "the minute is not over";
  Time() += 1ns;
  EXPECT_EQ(Warn(2), "W left out before the next line: 7 more like it\nW bad 1\nW bad 2\n");
  Time() += 59s;
  EXPECT_EQ(Warn(2), "W bad 1\n") << "a minute begins with its first";
  Time() += 1s;
  EXPECT_EQ(Warn(), "W left out before the next line: 1 more like it\nW bad 1\n")
      << "what was told is not told again";
}

TEST_F(LimitTest, NothingIsToldWhereNothingWasLeftOut) {
  Warn(3);
  Time() += 1h;
  EXPECT_EQ(Warn(4), "W bad 1\nW bad 2\nW bad 3\n");
  Time() += 24h;
  EXPECT_EQ(Warn(), "W left out before the next line: 1 more like it\nW bad 1\n");
}

TEST_F(LimitTest, ThereAreTwentyAMinuteUnlessSaidOtherwise) {
  Limit limit;
  for (int i = 0; i < 100; ++i) limit.Warn("x");
  std::string expected;
  for (int i = 0; i < 20; ++i) expected += "W x\n";
  EXPECT_EQ(lines_.str(), expected);
}

}  // namespace
}  // namespace lockstep::log
