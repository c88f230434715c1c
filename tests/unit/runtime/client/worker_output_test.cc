#include "runtime/client/worker_output.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace lockstep {
namespace {

WorkerOutput Line(const std::string& text) { return {.rank = 3, .text = text}; }

TEST(WorkerOutputTest, HasItsRankInFront) {
  EXPECT_EQ(FormatOutput(Line("loss 0.25"), /*for_terminal=*/true), "[rank 3] loss 0.25");
  EXPECT_EQ(FormatOutput(Line(""), /*for_terminal=*/true), "[rank 3] ");
}

TEST(WorkerOutputTest, CannotCommandATerminal) {
  EXPECT_EQ(FormatOutput(Line("a\x1b[2Jb\r\a\x7f\xc2\x9b!"), /*for_terminal=*/true),
            "[rank 3] a\\x1b[2Jb\\x0d\\x07\\x7f\\xc2\\x9b!");
  EXPECT_EQ(FormatOutput(Line("tab\tand \xc3\xa9"), /*for_terminal=*/true),
            "[rank 3] tab\tand \xc3\xa9");
  EXPECT_EQ(FormatOutput(Line("cut \xc2"), /*for_terminal=*/true), "[rank 3] cut \xc2");
}

TEST(WorkerOutputTest, AnythingElseGetsTheBytesAsTheyAre) {
  EXPECT_EQ(FormatOutput(Line("\x1b[1mbold"), /*for_terminal=*/false), "[rank 3] \x1b[1mbold");
}

TEST(WorkerOutputTest, SaysWhatWasDropped) {
  EXPECT_EQ(FormatOutput({.rank = 3, .text = "", .dropped = 12}, true),
            "[rank 3] (12 lines dropped: too much was printed)");
}

TEST(WorkerOutputTest, StreamsArePrintedWhereTheyBelong) {
  char* texts[2] = {};
  size_t sizes[2] = {};
  std::FILE* const out = open_memstream(&texts[0], &sizes[0]);
  std::FILE* const err = open_memstream(&texts[1], &sizes[1]);
  const OutputCallback print = PrintOutput(out, err);
  print(Line("result"));
  print({.rank = 0, .stream = WorkerOutput::Stream::kStderr, .text = "warning"});
  std::fclose(out);
  std::fclose(err);
  EXPECT_EQ(std::string(texts[0], sizes[0]), "[rank 3] result\n");
  EXPECT_EQ(std::string(texts[1], sizes[1]), "[rank 0] warning\n");
  std::free(texts[0]);
  std::free(texts[1]);
}

}  // namespace
}  // namespace lockstep
