#include "tools/cli/program/check.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/tools/cli/program/parse_text.h"
#include "tools/cli/program/parse.h"

namespace lockstep::cli::program {
namespace {

Status Check(const std::string& steps, int workers, int groups = 1) {
  const std::string text = "groups: " + std::to_string(groups) + "\nsteps:\n" + steps;
  const StatusOr<Program> program = Parse(text);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? CheckProgram(*program, workers) : program.status();
}

void ExpectWrong(const std::string& steps, const std::string& what, int workers = 4,
                 int groups = 1) {
  const Status status = Check(steps, workers, groups);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << steps;
  EXPECT_NE(Message(status).find(what), std::string::npos) << status;
}

constexpr char kMakeX[] = "  - {full: [4], value: 1, as: x}\n";

TEST(CheckProgramTest, RegistersAreMadeBeforeTheyAreUsed) {
  EXPECT_TRUE(Check(std::string(kMakeX) + "  - {allreduce: x, as: y}\n  - print: y\n", 4).ok());
  ExpectWrong("  - print: x\n", "no step before this one makes a register \"x\"");
  ExpectWrong("  - {full: [4], value: 1, as: total}\n  - print: totl\n", "did you mean \"total\"?",
              0);
  ExpectWrong(std::string(kMakeX) + "  - free: x\n  - print: x\n", "\"x\" was freed in line 4");
  ExpectWrong("  - {call: f, args: [$x]}\n", "\"x\"", 0);
  ExpectWrong("  - {call: f, module: m}\n", "\"m\"", 0);
}

TEST(CheckProgramTest, RanksExist) {
  ExpectWrong(std::string(kMakeX) + "  - {broadcast: x, root: 4}\n", "there is no rank 4");
  ExpectWrong(std::string(kMakeX) + "  - {print: x, rank: 7}\n", "there is no rank 7");
  ExpectWrong("  - sync: 4\n", "there is no rank 4");
  ExpectWrong(std::string(kMakeX) + "  - {allreduce: x, team: [0, 9]}\n", "there is no rank 9");
  ExpectWrong(std::string(kMakeX) + "  - {transfer: x, from: 1, to: 1}\n", "to itself");
  EXPECT_TRUE(Check(std::string(kMakeX) + "  - {broadcast: x, root: 4}\n", 0).ok());
}

TEST(CheckProgramTest, RootsCountInsideTheirGroupOrTeam) {
  ExpectWrong(std::string(kMakeX) + "  - {reduce: x, root: 2, in_group: true}\n",
              "root 2 is no rank of a group of 2", 4, 2);
  ExpectWrong(std::string(kMakeX) + "  - {reduce: x, root: 3, team: [0, 3]}\n",
              "root 3 is no rank of a team of 2");
}

TEST(CheckProgramTest, ResultsAreReadWhereTheyAre) {
  const std::string gather = std::string(kMakeX) + "  - {gather: x, root: 1, as: g}\n";
  EXPECT_TRUE(Check(gather + "  - print: g\n  - {expect: g, rank: 1, shape: [16]}\n", 4).ok());
  ExpectWrong(gather + "  - {allreduce: g}\n",
              "\"g\" is read on ranks 0, 2, 3, but holds a value on rank 1 only");
  ExpectWrong(gather + "  - {print: g, rank: 0}\n", "holds a value on rank 1 only");
  EXPECT_TRUE(Check(gather + "  - {scatter: g, root: 1, as: s}\n  - {allreduce: s}\n", 4).ok());
  ExpectWrong(std::string(kMakeX) + "  - {reduce: x, in_group: true, as: r}\n  - {allreduce: r}\n",
              "holds a value on ranks 0, 2 only", 4, 2);
  ExpectWrong("  - {values: [1], worker0: true, as: v}\n  - {allreduce: v}\n", "read on ranks 1-3");
  ExpectWrong(std::string(kMakeX) +
                  "  - {send_to_next_group: x}\n"
                  "  - {receive_from_previous_group: , as: r}\n"
                  "  - {print: r, rank: 1}\n",
              "holds a value on ranks 2, 3 only", 4, 2);
}

TEST(CheckProgramTest, SetGivesARankAValue) {
  const std::string gather = std::string(kMakeX) + "  - {gather: x, root: 0, as: g}\n";
  EXPECT_TRUE(Check(gather + "  - {set: g, rank: 1, value: 3}\n  - {allreduce: g}\n", 2).ok());
}

TEST(CheckProgramTest, ASecondRoundMayFindWhatTheFirstChanged) {
  ExpectWrong(std::string(kMakeX) + "  - {repeat: 5, steps: [{gather: x, as: x}]}\n",
              "\"x\" is read on ranks 1-3");
}

TEST(CheckProgramTest, PerRankHasAValueForEachWorker) {
  ExpectWrong(std::string(kMakeX) + "  - {expect: x, per_rank: [1, 2]}\n",
              "per_rank has 2 values, but there are 4 workers");
}

TEST(LoadProgramTest, MistakesInStepsDoNotHideThoseBetweenSteps) {
  const std::string path = testing::TempDir() + "/mistakes.yaml";
  std::ofstream(path) << "steps:\n"
                         "  - {ful: [2], value: 1, as: x}\n"
                         "  - {full: [2], valu: 1, as: y}\n"
                         "  - repeat: 0\n"
                         "    steps: [{full: [2], value: 1, as: z}]\n"
                         "  - {transfer: x, from: 1, as: t}\n"
                         "  - free: [x, y, z, t]\n"
                         "  - print: other\n";
  const StatusOr<Program> program = LoadProgram(path);
  EXPECT_EQ(program.status().code(), StatusCode::kInvalidArgument);
  std::vector<std::string> lines;
  std::istringstream text{std::string(Message(program.status()))};
  for (std::string line; std::getline(text, line);) {
    lines.push_back(line.substr(path.size(), line.find(' ') - path.size()));
  }
  // One for each mistake (two in line 3), and none about what a broken step would have made.
  EXPECT_EQ(lines, (std::vector<std::string>{":2:", ":3:", ":3:", ":4:", ":6:", ":8:"}))
      << program.status();
  EXPECT_EQ(LoadProgram("/nowhere/p.yaml").status().code(), StatusCode::kNotFound);
}

TEST(CheckProgramTest, TheWorldFitsTheProgram) {
  const auto program = Parse("workers: 4\nsteps: []");
  ASSERT_TRUE(program.ok());
  EXPECT_TRUE(CheckProgram(*program, 4).ok());
  EXPECT_NE(Message(CheckProgram(*program, 3)).find("written for 4 workers"), std::string::npos);
  EXPECT_FALSE(Check("  []\n", 4, 3).ok());
}

}  // namespace
}  // namespace lockstep::cli::program
