#include "tools/cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "tests/support/files.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;

Words Program() {
  Words connect{"status", "Show a cluster's state", {{{"-c", "--connect"}, "where", true}}, {}};
  connect.flags.push_back({{"--exit-code"}, "tell by the exit code", false});
  Words made{"new", "Make a key", {}, {}};
  return {"lockstep", "", {{{"--version"}, "", false}}, {connect, {"keys", "Keys", {}, {made}}}};
}

// What bash offers for a line of words, the last of which is being written.
std::string Offers(const std::string& words, int at) {
  const support::ScratchDirectory folder;
  const std::string path = folder.path() + "/script";
  {
    std::ofstream file(path);
    file << *CompletionScript("bash", Program()) << "COMP_WORDS=(" << words
         << ")\nCOMP_CWORD=" << at << "\n_lockstep\necho \"${COMPREPLY[*]}\"\n";
  }
  FILE* const bash = popen(("bash --norc " + path + " 2>&1").c_str(), "r");
  std::string output;
  char part[256];
  while (std::fgets(part, sizeof part, bash) != nullptr) output += part;
  pclose(bash);
  return output;
}

TEST(CompletionTest, BashOffersCommandsTheirCommandsAndTheirOptions) {
  EXPECT_EQ(Offers("lockstep ''", 1), "status keys\n");
  EXPECT_EQ(Offers("lockstep st", 1), "status\n");
  EXPECT_EQ(Offers("lockstep keys ''", 2), "new\n");
  EXPECT_EQ(Offers("lockstep status --", 2), "--connect --exit-code\n");
  // The value of an option is no command.
  EXPECT_EQ(Offers("lockstep status --connect keys --e", 4), "--exit-code\n");
}

TEST(CompletionTest, FishAndZshKnowTheSameWords) {
  const std::string fish = *CompletionScript("fish", Program());
  EXPECT_THAT(fish, HasSubstr("-n '__fish_use_subcommand' -f -a 'status' -d "
                              "'Show a cluster'\\''s state'"));
  EXPECT_THAT(fish, HasSubstr("-n '__fish_seen_subcommand_from status' -s c -l connect -r"));
  EXPECT_THAT(fish, HasSubstr("-n '__fish_seen_subcommand_from keys' -f -a 'new'"));
  const std::string zsh = *CompletionScript("zsh", Program());
  EXPECT_THAT(zsh, HasSubstr("#compdef lockstep"));
  EXPECT_THAT(zsh, HasSubstr("commands['/keys']='new'"));
}

TEST(CompletionTest, OtherShellsAreRefused) {
  EXPECT_EQ(CompletionScript("csh", Program()).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::cli
