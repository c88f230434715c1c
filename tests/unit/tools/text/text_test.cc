#include <gtest/gtest.h>
#include <unistd.h>

#include <sstream>
#include <string>

#include "tools/text/format.h"
#include "tools/text/table.h"
#include "tools/text/terminal.h"

namespace lockstep::text {
namespace {

std::string Rendered(const Table& table, bool colours, int indent = 0) {
  std::ostringstream out;
  table.Print(out, Style(colours), indent);
  return out.str();
}

TEST(TableTest, ColumnsAreAsWideAsTheirWidestCell) {
  Table table({{"RANK", Table::Align::kRight}, {"STATE"}, {"HOST"}});
  table.AddRow({"0", "ready", "a"});
  table.AddRow({"10", "missing", "b"});
  EXPECT_EQ(Rendered(table, false),
            "RANK  STATE    HOST\n"
            "   0  ready    a\n"
            "  10  missing  b\n");
}

TEST(TableTest, ColumnsMoveTogetherOnANarrowTerminal) {
  Table table({{"AAA"}, {"BBB"}});
  table.AddRow({"1", "2"});
  const auto rendered = [&](int width) {
    std::ostringstream out;
    table.Print(out, Style(false, width));
    return out.str();
  };
  EXPECT_EQ(rendered(8), "AAA  BBB\n1    2\n");
  EXPECT_EQ(rendered(7), "AAA BBB\n1   2\n");
}

TEST(TableTest, EmptyColumnsAreLeftOut) {
  Table table({{"A"}, {"REASON"}, {"B"}});
  table.AddRow({"1", "", "2"});
  EXPECT_EQ(Rendered(table, false, 2), "  A  B\n  1  2\n");
}

TEST(TableTest, ColoursAndUtf8DoNotShiftColumns) {
  Table table({{"A"}, {"B"}});
  table.AddRow({{"é", Tint::kGreen}, "x"});
  table.AddRow({"abc", "y"});
  EXPECT_EQ(Rendered(table, false), "A    B\né    x\nabc  y\n");
  EXPECT_NE(Rendered(table, true).find("\033[32mé\033[0m    x"), std::string::npos);
}

TEST(StyleTest, PaintsOnlyIfEnabled) {
  EXPECT_EQ(Style(false).Paint(Tint::kRed, "x"), "x");
  EXPECT_EQ(Style(true).Paint(Tint::kRed, "x"), "\033[31mx\033[0m");
  EXPECT_EQ(Style(true).Paint(Tint::kPlain, "x"), "x");
}

TEST(StyleTest, PipesAreNotColoured) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_FALSE(Style::For(ends[1]).enabled());
  close(ends[0]);
  close(ends[1]);
}

TEST(FormatTest, CountsAndPlurals) {
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(12'345'678), "12,345,678");
  EXPECT_EQ(Plural(1, "worker"), "1 worker");
  EXPECT_EQ(Plural(4, "worker"), "4 workers");
}

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
}  // namespace lockstep::text
