#include "tools/cli/command_line.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

using testing::HasSubstr;

TEST(ExitCodeTest, OkIsZeroAndPlainErrorsAreOne) {
  EXPECT_EQ(ExitCodeOf(OkStatus()), ExitCode::kOk);
  EXPECT_EQ(ExitCodeOf(Internal("broken")), ExitCode::kFailed);
}

TEST(ExitCodeTest, AttachedCodeWins) {
  const Status status = WithExitCode(Unavailable("nobody"), ExitCode::kUnreachable);
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUnreachable);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(Message(status), "nobody");
  EXPECT_EQ(ExitCodeOf(UsageError("a", 1)), ExitCode::kUsage);
}

TEST(ExitCodeTest, OkStaysOk) {
  EXPECT_EQ(ExitCodeOf(WithExitCode(OkStatus(), ExitCode::kUsage)), ExitCode::kOk);
}

// What is told of a command line; empty: nothing is wrong with it.
std::string Complaint(std::vector<std::string> words) {
  CommandLine line("lockstep", "1", "Drives a cluster.");
  std::optional<int> workers;
  double seconds = 2;
  Command up = line.root().AddCommand("up", "Start");
  up.Add("-w,--workers", workers, "how many").Between(1, 4096);
  up.Add("--timeout", seconds, "how long").Between(0.5, 10.0);
  up.Do([] { return OkStatus(); });
  Command keys = line.root().AddCommand("keys", "Keys");
  keys.RequireCommand();
  std::string name;
  keys.AddCommand("new", "Make").Add("NAME", name, "whose").Required();
  Command sessions = line.root().AddCommand("sessions", "Sessions");
  sessions.AddCommand("end", "End one");
  sessions.Do([] { return OkStatus(); });
  words.insert(words.begin(), "lockstep");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return std::string(Message(line.Parse(static_cast<int>(argv.size()), argv.data()).status()));
}

TEST(CommandLineTest, NumbersThatAreNoneAreToldWithTheOptionAndAnExample) {
  EXPECT_EQ(Complaint({"up", "--workers", "3", "--timeout", "1.5"}), "");
  EXPECT_EQ(Complaint({"up", "--workers", "abc"}),
            "--workers: \"abc\" is not a whole number from 1 to 4096; expected one such as 4; "
            "`lockstep up --help` tells more");
  EXPECT_THAT(Complaint({"up", "-w", "5000"}), HasSubstr("\"5000\" is not a whole number from 1"));
  EXPECT_THAT(Complaint({"up", "-w", "1.5"}), HasSubstr("\"1.5\" is not a whole number"));
  EXPECT_THAT(
      Complaint({"up", "--timeout", "soon"}),
      HasSubstr("--timeout: \"soon\" is not a number from 0.5 to 10; expected one such as 4"));
}

TEST(CommandLineTest, MisspeltOptionsAndCommandsAreToldWithWhatMayBeMeant) {
  EXPECT_EQ(Complaint({"up", "--wokers", "3"}),
            "there is no option --wokers (did you mean \"--workers\"?); `lockstep up --help` tells "
            "more");
  EXPECT_THAT(Complaint({"up", "--wokers=3"}), HasSubstr("did you mean \"--workers\"?"));
  EXPECT_THAT(Complaint({"keys", "new", "--helo"}), HasSubstr("did you mean \"--help\"?"))
      << "it comes before the name that is missing";
  EXPECT_THAT(Complaint({"up", "--nonsense"}), HasSubstr("there is no option --nonsense;"));
  EXPECT_THAT(Complaint({"upp"}), HasSubstr("did you mean \"up\"?"));
  EXPECT_EQ(
      Complaint({"keys", "nwe", "me"}),
      "there is no command \"nwe\" (did you mean \"new\"?); `lockstep keys --help` lists them");
  EXPECT_THAT(Complaint({"sessions", "ends"}), HasSubstr("did you mean \"end\"?"));
}

TEST(CommandLineTest, WhatIsMissingIsSaid) {
  EXPECT_THAT(Complaint({"keys"}), HasSubstr("a command is missing: new;"));
  EXPECT_EQ(Complaint({"up", "--workers"}),
            "--workers is given without its value; `lockstep up --help` tells more");
}

}  // namespace
}  // namespace lockstep::cli
