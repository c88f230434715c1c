#include "tools/cli/progress.h"

#include "gtest/gtest.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

TEST(ProgressTest, BarShowsShareCountAndTimeLeft) {
  EXPECT_EQ(RenderProgressBar(5, 10, "allreduce x", 2000, 60),
            "██████████░░░░░░░░░░  5/10  2.0 s left  allreduce x");
}

TEST(ProgressTest, NothingDoneAndAllDoneHaveNoEstimate) {
  EXPECT_EQ(RenderProgressBar(0, 10, "a", 0, 30), "░░░░░░░░░░  0/10  a");
  EXPECT_EQ(RenderProgressBar(10, 10, "a", 5, 30), "██████████  10/10  a");
}

TEST(ProgressTest, LongLabelsAreCutToTheTerminal) {
  const std::string line = RenderProgressBar(1, 4, std::string(200, 'x'), 1000, 80);
  EXPECT_LE(text::DisplayWidth(line), 80);
  EXPECT_TRUE(line.ends_with("…"));
}

TEST(ProgressTest, AnEmptyTotalIsNoDivisionByZero) {
  EXPECT_EQ(RenderProgressBar(0, 0, "a", 0, 30), "░░░░░░░░░░  0/1  a");
}

}  // namespace
}  // namespace lockstep::cli
