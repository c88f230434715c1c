#include "runtime/base/log.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::log {
namespace {

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

}  // namespace
}  // namespace lockstep::log
