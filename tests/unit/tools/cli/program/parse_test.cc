#include "tools/cli/program/parse.h"

#include "gtest/gtest.h"
#include "tests/unit/tools/cli/program/parse_text.h"

namespace lockstep::cli::program {
namespace {

Program Parsed(const std::string& text) {
  StatusOr<Program> program = Parse(text);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *std::move(program) : Program();
}

std::string ErrorOf(const std::string& text) {
  const StatusOr<Program> program = Parse(text);
  EXPECT_EQ(program.status().code(), StatusCode::kInvalidArgument) << text;
  return Message(program.status());
}

TEST(ParseProgramTest, TopLevelKeys) {
  const Program program =
      Parsed("name: demo\nworkers: 4\ngroups: 2\ntimeout: 30s\nsteps: [sync]\n");
  EXPECT_EQ(program.name, "demo");
  EXPECT_EQ(program.workers, 4);
  EXPECT_EQ(program.groups, 2);
  EXPECT_EQ(program.timeout, std::chrono::seconds(30));
  EXPECT_EQ(program.steps.size(), 1u);
  EXPECT_EQ(Parsed("steps: []").name, "p");
}

TEST(ParseProgramTest, StepsKnowTheirLineAndNumber) {
  const Program program = Parsed(
      "steps:\n"
      "  - {full: [2], value: 1, as: x}\n"
      "  - repeat: 3\n"
      "    steps:\n"
      "      - {allreduce: x, as: x}\n");
  ASSERT_EQ(program.steps.size(), 2u);
  EXPECT_EQ(program.steps[0].line, 2);
  EXPECT_EQ(program.steps[0].result, "x");
  const auto& repeat = std::get<RepeatStep>(program.steps[1].action);
  ASSERT_EQ(repeat.body.size(), 1u);
  EXPECT_EQ(repeat.body[0].Title(), "step 2.1 (allreduce x)");
  EXPECT_EQ(repeat.body[0].line, 5);
  EXPECT_EQ(program.NumExecuted(), 4u);
}

TEST(ParseProgramTest, TensorsAndCalls) {
  const Program program = Parsed(
      "steps:\n"
      "  - {values: [[1, 2], [3, 4]], dtype: i8, worker0: true, as: a}\n"
      "  - {arange: [1, 9, 2], as: b}\n"
      "  - {empty: [0, 3], only_rank: 1, as: c}\n"
      "  - {call: f, module: m, args: [$a, 2, \"x\", [2, 3]], as: d}\n");
  const auto& values = std::get<ValuesStep>(program.steps[0].action);
  EXPECT_EQ(values.tensor.dtype, DType::kInt8);
  EXPECT_EQ(values.tensor.shape, (Shape{2, 2}));
  EXPECT_TRUE(values.worker0_only);
  const auto& arange = std::get<CallStep>(program.steps[1].action);
  EXPECT_EQ(arange.function, "lockstep.arange");
  EXPECT_EQ(std::get<Value>(arange.args[2]), Value(2));
  EXPECT_EQ(std::get<EmptyStep>(program.steps[2].action).only_rank, 1);
  const auto& call = std::get<CallStep>(program.steps[3].action);
  EXPECT_EQ(call.module, "m");
  ASSERT_EQ(call.args.size(), 4u);
  EXPECT_EQ(std::get<RegisterReference>(call.args[0]).name, "a");
  EXPECT_EQ(std::get<Value>(call.args[2]), Value("x"));
  EXPECT_EQ(std::get<Value>(call.args[3]), Value(Shape{2, 3}));
}

TEST(ParseProgramTest, Collectives) {
  const Program program = Parsed(
      "steps:\n"
      "  - {reduce: x, op: max, root: 1, team: [3, 1], into: y, as: z}\n"
      "  - {transfer: x, from: 2, to: 0}\n"
      "  - barrier\n");
  const auto& reduce = std::get<CollectiveStep>(program.steps[0].action);
  EXPECT_EQ(reduce.kind, OperationKind::kReduce);
  EXPECT_EQ(reduce.op, Reduction::kMax);
  EXPECT_EQ(reduce.root, 1);
  EXPECT_EQ(reduce.team, (std::vector<Rank>{3, 1}));
  EXPECT_EQ(reduce.destination, "y");
  const auto& transfer = std::get<CollectiveStep>(program.steps[1].action);
  EXPECT_EQ(transfer.from, 2);
  EXPECT_EQ(transfer.to, 0);
}

TEST(ParseProgramTest, Expectations) {
  const Program program = Parsed(
      "steps:\n"
      "  - {expect: x, value: [1, 2.5], rank: [0, 2], tolerance: 1e-3}\n"
      "  - {expect: x, per_rank: [1, \"a\", none], dtype: f32, shape: [2]}\n");
  const auto& first = std::get<ExpectStep>(program.steps[0].action);
  EXPECT_EQ(std::get<NumberArray>(*first.value).shape, (Shape{2}));
  EXPECT_EQ(first.ranks, (std::vector<Rank>{0, 2}));
  EXPECT_EQ(first.tolerance, 1e-3);
  const auto& second = std::get<ExpectStep>(program.steps[1].action);
  ASSERT_EQ(second.per_rank.size(), 3u);
  EXPECT_EQ(std::get<Value>(second.per_rank[1]), Value("a"));
  EXPECT_EQ(second.dtype, DType::kFloat32);
}

TEST(ParseProgramTest, AllMistakesAreReportedAtOnceWithFileLineAndStep) {
  const std::string error = ErrorOf(
      "steps:\n"
      "  - {allreduce: x, opp: sum}\n"
      "  - {fill: [2]}\n"
      "  - {transfer: x, from: 0}\n");
  EXPECT_NE(
      error.find("p.yaml:2: step 1 (allreduce x): unknown key \"opp\" (did you mean \"op\"?)"),
      std::string::npos)
      << error;
  EXPECT_NE(error.find("p.yaml:3: step 2: this is no step (did you mean \"full\"?)"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("p.yaml:4: step 3 (transfer x): the key \"to\" is missing"),
            std::string::npos)
      << error;
}

TEST(ParseProgramTest, BuiltInFunctionsHaveToExist) {
  const std::string error =
      ErrorOf("steps:\n  - repeat: 2\n    steps:\n      - {call: lockstep.castt, as: x}\n");
  EXPECT_NE(error.find("p.yaml:4: step 1.1 (call lockstep.castt): there is no function "
                       "\"lockstep.castt\"; did you mean lockstep.cast"),
            std::string::npos)
      << error;
  Parsed("steps:\n  - {load: f.so, as: m}\n  - {call: lockstep.castt, module: m}\n");
}

TEST(ParseProgramTest, EveryMistakeIsRefused) {
  for (const char* text : {
           "",
           "[1, 2",
           "steps: 3",
           "name: x",
           "steps: []\nsteps: []",
           "workers: 0\nsteps: []",
           "workers: many\nsteps: []",
           "timeout: 5\nsteps: []",
           "colour: red\nsteps: []",
           "steps: [3]",
           "steps: [synk]",
           "steps: [{sync: 1, barrier: }]",
           "steps: [{barrier: 3}]",
           "steps: [{allreduce: }]",
           "steps: [{allreduce: $x}]",
           "steps: [{allreduce: x, op: mean}]",
           "steps: [{allreduce: x, in_group: yes}]",
           "steps: [{allreduce: x, team: []}]",
           "steps: [{allreduce: x, team: [1, 1]}]",
           "steps: [{allreduce: x, team: [0, 1], in_group: true}]",
           "steps: [{allreduce: x, as: 3x}]",
           "steps: [{allreduce: x, allreduce: y}]",
           "steps: [{reduce: x, root: -1}]",
           "steps: [{full: [2], as: x}]",
           "steps: [{full: [2], value: 1}]",
           "steps: [{full: 2, value: 1, as: x}]",
           "steps: [{full: [-2], value: 1, as: x}]",
           "steps: [{full: [2], value: 1, dtype: f33, as: x}]",
           "steps: [{arange: [1], as: x}]",
           "steps: [{values: [1, [2]], as: x}]",
           "steps: [{values: [300], dtype: i8, as: x}]",
           "steps: [{npy: /nowhere.npy, as: x}]",
           "steps: [{call: f, args: 3}]",
           "steps: [{call: f, args: [treu]}]",
           "steps: [{call: f, args: [[1, $x]]}]",
           "steps: [{set: x, rank: 0}]",
           "steps: [{print: x, rank: some}]",
           "steps: [{expect: x}]",
           "steps: [{expect: x, value: 1, per_rank: [1]}]",
           "steps: [{expect: x, value: 1, tolerance: -1}]",
           "steps: [{repeat: 0, steps: []}]",
           "steps: [{repeat: 2}]",
       }) {
    EXPECT_FALSE(ErrorOf(text).empty()) << text;
  }
}

TEST(ReadProgramFileTest, AMissingFileIsNamed) {
  config::Problems problems;
  const auto program = ReadProgramFile("/nowhere/p.yaml", problems);
  EXPECT_EQ(program.status().code(), StatusCode::kNotFound);
  EXPECT_NE(Message(program.status()).find("/nowhere/p.yaml"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::cli::program
