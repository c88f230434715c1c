#include "tools/cli/printable.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

TEST(PrintableTest, WhatMovesATerminalIsWrittenOut) {
  EXPECT_EQ(Printable("a\nb\tc\033[2Jd\x7f"), "a\\nb\\tc\\x1b[2Jd\\x7f");
  EXPECT_EQ(Printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "2J"),
            "\\xc2\\x9b2J")
      << "U+009B begins a sequence, too";
}

TEST(PrintableTest, OtherTextStays) {
  EXPECT_EQ(Printable("größe 名 🦀"), "größe 名 🦀");
  EXPECT_EQ(Printable("\xc2\xa0"), "\xc2\xa0") << "the first after the control characters";
}

TEST(PrintableTest, BytesThatAreNoUtf8AreWrittenOut) {
  EXPECT_EQ(Printable("\x9b"
                      "2J"),
            "\\x9b2J");
  EXPECT_EQ(Printable("a\xc3"), "a\\xc3") << "cut off";
  EXPECT_EQ(Printable("\xc0\x9b"), "\\xc0\\x9b") << "too long a form";
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half of a pair";
}

TEST(ShortenTest, CutsCharactersNotBytes) {
  EXPECT_EQ(Shorten("größe", 5), "größe");
  EXPECT_EQ(Shorten("größer", 5), "größ…");
  EXPECT_EQ(Shorten("ab", 1), "…");
  EXPECT_EQ(Shorten("ab", 0), "");
}

}  // namespace
}  // namespace lockstep::cli
