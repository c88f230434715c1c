#include "runtime/base/utf8.h"

#include <gtest/gtest.h>

#include <string_view>

namespace lockstep {
namespace {

using namespace std::string_view_literals;

TEST(Utf8Test, EachLengthBeginsAndEndsWhereTheStandardSays) {
  // The first and the last of each row of RFC 3629's table.
  for (const std::string_view text : {"\0"sv, "\x7f"sv}) EXPECT_EQ(Utf8SequenceLength(text), 1u);
  for (const std::string_view text : {"\xc2\x80"sv, "\xdf\xbf"sv}) {
    EXPECT_EQ(Utf8SequenceLength(text), 2u);
  }
  for (const std::string_view text :
       {"\xe0\xa0\x80"sv, "\xe0\xbf\xbf"sv, "\xe1\x80\x80"sv, "\xec\xbf\xbf"sv, "\xed\x80\x80"sv,
        "\xed\x9f\xbf"sv, "\xee\x80\x80"sv, "\xef\xbf\xbf"sv}) {
    EXPECT_EQ(Utf8SequenceLength(text), 3u);
  }
  for (const std::string_view text :
       {"\xf0\x90\x80\x80"sv, "\xf0\xbf\xbf\xbf"sv, "\xf1\x80\x80\x80"sv, "\xf3\xbf\xbf\xbf"sv,
        "\xf4\x80\x80\x80"sv, "\xf4\x8f\xbf\xbf"sv}) {
    EXPECT_EQ(Utf8SequenceLength(text), 4u);
  }
}

TEST(Utf8Test, WhatIsBesideThoseIsNoSequence) {
  for (const std::string_view text : {
           // A byte that only follows; too long for what they say; beyond all lengths.
           "\x80"sv,
           "\xbf"sv,
           "\xc0\x80"sv,
           "\xc1\xbf"sv,
           "\xf5\x80\x80\x80"sv,
           "\xff"sv,
           // Too long for what they say; a surrogate; beyond U+10FFFF.
           "\xe0\x9f\xbf"sv,
           "\xf0\x8f\xbf\xbf"sv,
           "\xed\xa0\x80"sv,
           "\xed\xbf\xbf"sv,
           "\xf4\x90\x80\x80"sv,
           "\xf4\xbf\xbf\xbf"sv,
       }) {
    EXPECT_EQ(Utf8SequenceLength(text), 0u) << HexEscape(text[0]);
  }
}

TEST(Utf8Test, EachByteThatFollowsIsLookedAt) {
  for (const std::string_view text :
       {"\xc2\x7f"sv, "\xc2\xc0"sv, "\xe1\x7f\x80"sv, "\xe1\xc0\x80"sv, "\xe1\x80\x7f"sv,
        "\xe1\x80\xc0"sv, "\xf1\x7f\x80\x80"sv, "\xf1\x80\x7f\x80"sv, "\xf1\x80\x80\x7f"sv,
        "\xf1\x80\x80\xc0"sv}) {
    EXPECT_EQ(Utf8SequenceLength(text), 0u);
  }
}

TEST(Utf8Test, WhatEndsEarlyIsNoSequence) {
  for (const std::string_view text : {""sv, "\xc2"sv, "\xe1\x80"sv, "\xf1\x80\x80"sv}) {
    EXPECT_EQ(Utf8SequenceLength(text), 0u);
  }
}

TEST(Utf8Test, OnlyTheFrontIsRead) { EXPECT_EQ(Utf8SequenceLength("\xc3\xa9\xff"), 2u); }

TEST(Utf8Test, BytesAreShownByTwoDigits) {
  EXPECT_EQ(HexEscape('\x1b'), "\\x1b");
  EXPECT_EQ(HexEscape('\0'), "\\x00");
  EXPECT_EQ(HexEscape('\xff'), "\\xff");
}

}  // namespace
}  // namespace lockstep
