#include "runtime/base/log.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::log {
namespace {

TEST(LogTest, TextIsWrittenAsItIs) {
  EXPECT_EQ(Printable("rank 2 is lost:\tits process \xc3\xa9nded"),
            "rank 2 is lost:\tits process \xc3\xa9nded");
}

// What a peer has sent must not look like a line of ours, nor move a terminal's cursor.
TEST(LogTest, ControlCharactersAreNotWritten) {
  EXPECT_EQ(Printable("a\n2026 forged\r\x1b[2J\x7f" + std::string(1, '\0')),
            "a\n    2026 forged\\x0d\\x1b[2J\\x7f\\x00");
}

TEST(LogTest, LinesAreBounded) {
  const std::string line = Printable(std::string(kMaxLineBytes + 5, 'x'));
  EXPECT_EQ(line, std::string(kMaxLineBytes, 'x') + "... (5 bytes more)");
}

}  // namespace
}  // namespace lockstep::log
