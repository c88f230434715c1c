#include "services/local/remote_command.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "runtime/base/child_process.h"

namespace lockstep::local {
namespace {

// What /bin/sh takes `line` for: its words, each on a line.
std::string WordsOf(const std::string& line) {
  const std::string log = ::testing::TempDir() + "/words";
  std::ofstream(log, std::ios::trunc).close();
  auto child = ChildProcess::Spawn(
      {.argv = {"/bin/sh", "-c", "printf '%s\\n' " + line}, .environment = {}, .log_path = log});
  EXPECT_TRUE(child.ok()) << child.status();
  EXPECT_TRUE(child->Wait(Deadline::After(std::chrono::seconds(20)))->ok());
  std::ostringstream text;
  text << std::ifstream(log).rdbuf();
  return text.str();
}

TEST(RemoteCommandTest, AShellReadsEveryWordBack) {
  for (const char* word : {"plain",  "/opt/lockstep-worker",
                           "",       "two words",
                           "it's",   "''",
                           "\\",     "a\\'b",
                           "$HOME",  "$(exit)",
                           "`exit`", "; exit",
                           "a&b|c",  "*",
                           "~",      "~/bin",
                           "!x",     "#x",
                           "=x",     "\"",
                           "{a,b}",  "(x)",
                           "<x>",    "ümlaut"}) {
    EXPECT_EQ(WordsOf(ShellWord(word)), std::string(word) + "\n");
  }
  EXPECT_EQ(WordsOf(ShellLine({"a b", "c"})), "a b\nc\n");
}

TEST(RemoteCommandTest, WhatIsSafeIsLeftReadable) {
  EXPECT_EQ(ShellLine({"ssh", "-o", "BatchMode=yes", "me@node1", "a b"}),
            "ssh -o BatchMode=yes me@node1 'a b'");
}

TEST(RemoteCommandTest, TheHostAndOneWordForTheShellThereAreAppended) {
  EXPECT_EQ(RemoteCommand({"ssh", "-p", "22"}, "node1", "my worker"),
            (std::vector<std::string>{"ssh", "-p", "22", "node1",
                                      "exec 'my worker' --config - --die-with-input"}));
}

}  // namespace
}  // namespace lockstep::local
