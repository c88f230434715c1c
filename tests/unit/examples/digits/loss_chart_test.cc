#include "examples/digits/loss_chart.h"

#include <cstdio>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::examples::digits {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What `add` shows.
std::string Shown(int epochs, bool on_terminal, const std::vector<double>& losses) {
  std::FILE* file = std::tmpfile();
  LossDisplay display(file, epochs, on_terminal);
  for (const double loss : losses) display.Add(loss);
  std::string text(static_cast<size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  return text;
}

TEST(LossChartTest, AFallingLossRunsFromTopLeftToBottomRight) {
  const auto lines = DrawChart({4, 1}, 2, 2, 2);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].curve, "⢇");
  EXPECT_EQ(lines[1].curve, "⠈⢆");
}

TEST(LossChartTest, AxisShowsTheLossesAtTheirHeights) {
  const auto lines = DrawChart({2.0, 0.02}, 2, 10, 12);
  EXPECT_THAT(lines[0].axis, HasSubstr("┤"));
  EXPECT_THAT(lines[1].axis, HasSubstr("│"));
  EXPECT_GT(std::stod(lines[0].axis), std::stod(lines[3].axis));
  EXPECT_GT(std::stod(lines[3].axis), std::stod(lines[9].axis));
  EXPECT_LT(std::stod(lines[0].axis), 2.2);
  EXPECT_GT(std::stod(lines[9].axis), 0.02);
}

TEST(LossChartTest, AConstantLossIsAFlatLine) {
  const auto lines = DrawChart({1, 1, 1, 1}, 4, 4, 3);
  EXPECT_EQ(lines[0].curve, "");
  EXPECT_NE(lines[1].curve, "");
  EXPECT_EQ(lines[2].curve, "");
}

TEST(LossChartTest, NoLossesYetIsAnEmptyChart) {
  for (const ChartLine& line : DrawChart({}, 10, 5, 3)) EXPECT_EQ(line.curve, "");
}

TEST(LossChartTest, OneEpochIsOneDot) {
  int drawn = 0;
  for (const ChartLine& line : DrawChart({0.5}, 1, 5, 3)) drawn += !line.curve.empty();
  EXPECT_EQ(drawn, 1);
}

TEST(LossDisplayTest, WithoutATerminalAFewPlainLines) {
  std::vector<double> losses(100, 1.5);
  losses.back() = 0.25;
  const std::string text = Shown(100, false, losses);
  EXPECT_THAT(text, HasSubstr("epoch   1 of 100   loss 1.5000\n"));
  EXPECT_THAT(text, HasSubstr("epoch  10 of 100   loss 1.5000\n"));
  EXPECT_THAT(text, HasSubstr("epoch 100 of 100   loss 0.2500\n"));
  EXPECT_THAT(text, Not(HasSubstr("epoch  11 ")));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
}

TEST(LossDisplayTest, OnATerminalTheChartIsRedrawnInPlace) {
  EXPECT_THAT(Shown(3, true, {2}), Not(HasSubstr("A")));
  const std::string twice = Shown(3, true, {2, 1});
  EXPECT_THAT(twice, HasSubstr("\033[13A"));
  EXPECT_THAT(twice, HasSubstr("epoch 2 of 3, loss 1.0000"));
}

}  // namespace
}  // namespace lockstep::examples::digits
