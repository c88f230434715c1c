#include "tools/cli/program/check.h"

#include <array>
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

// A plan over ranks 0 and 1, of one input and one output.
constexpr char kPlan[] = R"(plan:
  meshes: {pair: {ranks: 0-1}}
  layouts:
    rows: {shape: [8, 8], mesh: pair, placements: [shard(0)]}
    whole: {shape: [8, 8], mesh: pair, placements: [replicate]}
  inputs: {x: rows}
  steps:
    - {reshard: x, to: whole, as: w}
    - {call: f, module: m, args: [$w], result: whole, as: y}
  outputs: [y]
steps:
)";
constexpr char kMakeModule[] = "  - {load: m.so, as: m}\n";

std::string PlanProblem(const std::string& steps, int workers = 4,
                        const std::string& plan = kPlan) {
  const StatusOr<Program> program = Parse(plan + steps);
  return Message(program.ok() ? CheckProgram(*program, workers) : program.status());
}

TEST(CheckPlanTest, OutputsAreRegistersWhereThePlanHasThem) {
  const std::string start = std::string(kMakeModule) + kMakeX;
  EXPECT_EQ(PlanProblem(start + "  - {execute: plan, times: 3}\n  - print: y\n"), "");
  EXPECT_EQ(PlanProblem(start + "  - {execute: plan, inputs: {x: x}, outputs: {y: z}}\n"
                                "  - {expect: z, rank: [0, 1], value: 1}\n"),
            "");
  EXPECT_NE(
      PlanProblem(start + "  - execute: plan\n  - {allreduce: y}\n")
          .find(
              "p.yaml:15: step 4 (allreduce y): \"y\" is read on ranks 2, 3, but holds a value on "
              "ranks 0, 1 only"),
      std::string::npos)
      << PlanProblem(start + "  - execute: plan\n  - {allreduce: y}\n");
}

TEST(CheckPlanTest, WhatIsWrongWithAStepIsTold) {
  const auto expect = [](const std::string& steps, const std::string& what, int workers = 4) {
    const std::string problem = PlanProblem(steps, workers);
    EXPECT_NE(problem.find(what), std::string::npos) << problem;
    EXPECT_EQ(problem.find('\n'), std::string::npos) << "only once: " << problem;
  };
  expect(std::string(kMakeModule) + "  - execute: plan\n", "makes a register \"x\"");
  expect(std::string(kMakeX) + "  - execute: plan\n", "makes a register \"m\"");
  const std::string start = std::string(kMakeModule) + kMakeX;
  expect(start + "  - {execute: plan, inputs: {xx: x}}\n", "the plan has no input \"xx\"");
  expect(start + "  - {execute: plan, outputs: {z: a}}\n  - print: y\n", "no output \"z\"");
  expect(start + "  - execute: plan\n  - print: y\n", "there is no rank 1; the ranks are 0-0", 1);
  expect(start + "  - execute: plans\n  - print: y\n", "execute: plan");
  expect(start + "  - {execute: plan, times: 0}\n", "at least once");
  expect(start + "  - {execute: plan, inputs: [x]}\n  - print: y\n", "names and registers");
  expect(start + "  - {execute: plan, into: y}\n", "unknown key \"into\"");
}

TEST(CheckPlanTest, APlanThatIsWrongIsToldOnce) {
  const std::string steps = std::string(kMakeModule) + kMakeX + "  - execute: plan\n  - print: y\n";
  for (const auto& [from, to, what] : std::vector<std::array<std::string, 3>>{
           {"to: whole", "to: hole", "p.yaml:8: reshard: to: there is no layout \"hole\""},
           {"outputs:", "output:", "p.yaml:10: plan: unknown key \"output\""},
           {"[$w]", "[3]", ""},
           {"inputs: {x: rows}", "inputs: {x: rows}\n  nods: [0]", "did you mean \"nodes\"?"},
           {"{reshard: x, to: whole, as: w}", "{make: whole, as: w}",
            "p.yaml:9: f: argument 1: value \"w\" is read before"}}) {
    std::string plan = kPlan;
    plan.replace(plan.find(from), from.size(), to);
    const std::string problem = PlanProblem(steps, 4, plan);
    EXPECT_NE(problem.find(what), std::string::npos) << problem;
    EXPECT_EQ(problem.find('\n'), std::string::npos) << problem;
  }
  EXPECT_NE(PlanProblem("  - execute: plan\n", 4, "steps:\n").find("no section \"plan\""),
            std::string::npos);
  EXPECT_NE(PlanProblem("", 4, "plan: 3\nsteps: []\n").find("p.yaml:1: plan: expected"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::cli::program
