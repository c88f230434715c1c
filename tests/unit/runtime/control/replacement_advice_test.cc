#include "runtime/control/replacement_advice.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(ReplacementAdviceTest, TheHintNamesTheRank) {
  EXPECT_EQ(HowToReplace("start {rank}, that is {rank}", {2}), "start 2, that is 2");
  EXPECT_EQ(HowToReplace("start rank={rank}", {0, 1, 2, 7}), "start rank=R (R: 0-2, 7)");
  EXPECT_EQ(HowToReplace("run `up`", {0, 1}), "run `up`");
  EXPECT_EQ(HowToReplace("", {0, 1}), "");
}

TEST(ReplacementAdviceTest, ProcessesAreEndedWhereTheyRun) {
  EXPECT_EQ(HowToEnd("run `up`", {{2, "box", 101}}), "`kill -9 101` on box ends it; then run `up`");
  EXPECT_EQ(HowToEnd("", {{1, "box", 101}, {2, "crate", 7}, {3, "box", 103}}),
            "`kill -9 101 103` on box, `kill -9 7` on crate ends them");
  EXPECT_EQ(HowToEnd("", {{2, "worker-2", 1}}), "ending the container worker-2 ends it")
      << "its first process takes no signal from within";
}

}  // namespace
}  // namespace lockstep
