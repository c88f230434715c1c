// The `plan:` section of a program file: what is read, what is refused, and how it is explained.
#include "tools/cli/plan/plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tools/cli/plan/analysis.h"
#include "tools/cli/plan/drawing.h"
#include "tools/cli/plan/explain.h"
#include "tools/cli/plan/explain_json.h"
#include "tools/cli/plan/explain_text.h"
#include "tools/cli/plan/graph_on_gpus.h"
#include "tools/cli/plan/schedule.h"
#include "tools/text/terminal.h"

namespace lockstep::cli::plan_file {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPlan[] = R"(plan:
  nodes: [0, 0, 1, 1]
  meshes:
    all: {ranks: 0-3}
    grid: {axes: {x: 2, y: 2}, ranks: [3, 1, 2, 0]}
  layouts:
    rows: {shape: [64, 64], dtype: f32, mesh: all, placements: [shard(0)]}
    whole: {shape: [64, 64], mesh: all, placements: [R]}
    tiles: {shape: [64, 64], dtype: f32, mesh: grid, placements: [shard(0), shard(1)]}
  inputs: {x: rows}
  steps:
    - {reshard: x, to: whole, as: all_of_it}
    - {make: whole, as: scratch}
    - {call: scale, args: [$all_of_it, write $scratch, 0.5, [2, 3], i8, text:word]}
    - {call: f, args: [update $scratch], result: whole, as: y}
    - {reshard: y, to: tiles, as: z}
  outputs: [z]
)";

StatusOr<PlanFile> ReadText(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/layers.yaml";
  std::ofstream(path) << text;
  return ReadPlanFile(path);
}

// kPlan with `from` replaced.
std::string Error(const std::string& from, const std::string& to) {
  std::string text = kPlan;
  text.replace(text.find(from), from.size(), to);
  return Message(ReadText(text).status());
}

TEST(PlanFileTest, ReadsAllOfIt) {
  const StatusOr<PlanFile> file = ReadText(kPlan);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->value_names, ElementsAre("x", "all_of_it", "scratch", "y", "z"));
  EXPECT_EQ(file->topology.NodeOf(2), 1);
  const plan::Program& program = file->program();
  EXPECT_EQ(program.ops().size(), 4u);
  EXPECT_EQ(program.ops()[1].where, "layers.yaml:14");
  const auto& call = std::get<plan::CallOp>(program.ops()[1].what);
  EXPECT_THAT(call.arguments,
              ElementsAre(plan::Read(plan::ValueId{1}), plan::Write(plan::ValueId{2}),
                          plan::Pass(0.5), plan::Pass(Shape({2, 3})), plan::Pass(DType::kInt8),
                          plan::Pass(std::string("word"))));
  EXPECT_EQ(program.value(plan::ValueId{4}).layout.mesh().ToString(), "x=2,y=2 {3, 1, 2, 0}");
}

TEST(PlanFileTest, PlacementsMayGiveExtents) {
  const std::string given = "placements: [\"shard(0: 10, 0, 50, 4)\"]";
  std::string text = kPlan;
  text.replace(text.find("placements: [shard(0)]"), std::string("placements: [shard(0)]").size(),
               given);
  const StatusOr<PlanFile> file = ReadText(text);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->program().value(plan::ValueId{0}).layout.placement(0),
            plan::Placement::Shard(0, {10, 0, 50, 4}));
  std::ostringstream out;
  PrintProgram(out, *file);
  EXPECT_THAT(out.str(), HasSubstr("L0 = float32[64, 64] on x=4 {0-3}: shard(0: 10, 0, 50, 4)"));
  EXPECT_THAT(
      Error("[shard(0)]", "[\"shard(0: 10, 0, 50)\"]"),
      HasSubstr("layers.yaml:7: layouts.rows: axis \"x\" has 4 coordinates, and 3 extents"));
  EXPECT_THAT(Error("[shard(0)]", "[shard(0: 10, 0, 50, 4)]"),
              HasSubstr("layers.yaml:7: layouts.rows: placements: expected a text; what has colons "
                        "or commas needs quotes, as in [\"shard(0: 3, 0, 5)\"]"));
}

TEST(PlanFileTest, MistakesAreToldWithTheirLines) {
  EXPECT_THAT(Error("to: whole", "to: whol"),
              AllOf(HasSubstr("layers.yaml:12: reshard: to: there is no layout \"whol\" (did you "
                              "mean \"whole\"?)"),
                    Not(HasSubstr("all_of_it"))))
      << "and not what follows from it";
  EXPECT_THAT(Error("shard(0)]", "shrd(0)]"), HasSubstr("layers.yaml:7: layouts.rows: "));
  EXPECT_THAT(Error("mesh: grid", "mesh: gird"), HasSubstr("did you mean \"grid\"?"));
  EXPECT_THAT(Error("ranks: 0-3", "ranks: \"0-1, 3\""), HasSubstr("meshes.all: ranks: "));
  EXPECT_THAT(Error("ranks: 0-3", "ranks: 3-0"), HasSubstr("layers.yaml:4: meshes.all: ranks: "));
  EXPECT_THAT(Error("to: whole, as", "as"),
              HasSubstr("layers.yaml:12: reshard: to: expected the name of a layout"));
  EXPECT_THAT(Error("ranks: 0-3", "axes: {x: 4}"), HasSubstr("layers.yaml:4: meshes.all: ranks: "));
  EXPECT_THAT(Error("ranks: 0-3", "ranks: [0, 70000]"), HasSubstr("of ranks from 0 to 65535"));
  EXPECT_THAT(
      Error("[update $scratch]", "update $scratch"),
      AllOf(HasSubstr("layers.yaml:15: f: args: expected a list"), Not(HasSubstr("\"y\""))));
  EXPECT_THAT(Error("[update $scratch]", "{a: update $scratch}"),
              HasSubstr("layers.yaml:15: f: args: expected a list"));
  EXPECT_THAT(Error("[$all_of_it,", "[all_of_it,"),
              HasSubstr("layers.yaml:14: scale: \"all_of_it\" is a value of the plan: write "
                        "$all_of_it"));
  EXPECT_THAT(Error("[shard(0)]", "shard(0)"),
              HasSubstr("layers.yaml:7: layouts.rows: placements: expected a list"));
  EXPECT_THAT(Error("inputs: {x: rows}", "inputs: {x: rows, x: whole}"),
              HasSubstr("layers.yaml:10: plan.inputs: \"x\" is given twice"));
  EXPECT_THAT(Error("to: whole, as", "to: whole, to: rows, as"),
              HasSubstr("layers.yaml:12: reshard: the key \"to\" is given twice"));
  EXPECT_THAT(Error("[0, 0, 1, 1]", "[0, 0, 1]"),
              HasSubstr("layers.yaml:2: plan: nodes: the node of each rank is expected, and there "
                        "are 3 for ranks up to 3"));
  EXPECT_THAT(Error("[0, 0, 1, 1]", "[0, 0, 1, -1]"), HasSubstr("they are counted from 0"));
  EXPECT_THAT(Error("placements: [R]", "placements: [R, R]"),
              HasSubstr("layers.yaml:8: layouts.whole: placements: mesh \"all\" has 1 axis, and "
                        "there are 2 placements"));
  EXPECT_THAT(Error("[shard(0), shard(1)]", "[shard(0)]"),
              HasSubstr("mesh \"grid\" has 2 axes, and there is 1 placement"));
  EXPECT_THAT(Error("inputs: {x: rows}", "inputs: [x]"), HasSubstr("inputs: expected names"));
  EXPECT_THAT(Error("- {make: whole", "- {mak: whole"),
              HasSubstr("expected one of the keys call, reshard, make, copy, view, allreduce, "
                        "reduce_scatter, allgather, all_to_all, broadcast"));
  EXPECT_THAT(Error("as: y}", "az: y}"), HasSubstr("unknown key \"az\""));
  EXPECT_THAT(Error("[update $scratch]", "[update $scrtch]"), HasSubstr("there is no value"));
  EXPECT_THAT(Error("$all_of_it,", "{a: 1},"), HasSubstr("layers.yaml:14: scale: expected"));
  EXPECT_THAT(Error("write $scratch", "$scratch"),
              HasSubstr("layers.yaml:14: scale: argument 2: value \"scratch\" is read before"));
  EXPECT_THAT(Error("[update $scratch]", "[$scratch, update $scratch]"),
              HasSubstr("layers.yaml:15: f: value \"scratch\" is written, and is another"));
  EXPECT_THAT(Error("plan:", "plann:"), HasSubstr("the section \"plan\" is missing"));
  EXPECT_THAT(Error("meshes:", "meshes: ["), HasSubstr("not valid YAML"));
  EXPECT_THAT(Message(ReadPlanFile("/no/such/file").status()), HasSubstr("cannot be read"));
}

TEST(PlanFileTest, AllNamesFollowOneRule) {
  const auto why = [](const std::string& name) {
    return HasSubstr("\"" + name +
                     "\" is no name: names have letters (a-z, A-Z), digits and _, and begin with "
                     "no digit");
  };
  EXPECT_THAT(Error("inputs: {x: rows}", "inputs: {x: rows, a b: rows}"),
              AllOf(HasSubstr("layers.yaml:10: plan.inputs: "), why("a b")));
  EXPECT_THAT(Error("inputs: {x: rows}", "inputs: {x: rows, \"\": rows}"), why(""));
  EXPECT_THAT(Error("inputs: {x: rows}", "inputs: {x: rows, größe: rows}"), why("größe"));
  EXPECT_THAT(Error("as: z}", "as: größe}"), AllOf(HasSubstr("layers.yaml:16: as: "), why("größe")))
      << "and not that there is no z";
  EXPECT_THAT(Error("grid: {axes: {x: 2,", "grid: {axes: {2x: 2,"), why("2x"));
  EXPECT_THAT(Error("    all: {", "    all-of: {"), why("all-of"));
  EXPECT_THAT(Error("    rows: {", "    the rows: {"), why("the rows"));
  EXPECT_THAT(Error("call: f,", "call: f, module: 1m,"), why("1m"));
}

TEST(PlanFileTest, MistakesOfTheWholeProgramHaveLines) {
  EXPECT_THAT(Error("outputs: [z]", "outputs:\n    - z\n    - x"),
              HasSubstr("layers.yaml:19: plan: output \"x\" is an input: the caller has its "
                        "register"));
  EXPECT_THAT(Error("outputs: [z]", "outputs:\n    - z\n    - z"),
              HasSubstr("layers.yaml:19: outputs: \"z\" is given twice"));
  EXPECT_THAT(Error("outputs: [z]", "outputs:\n    - late\n  nods: [0]"),
              HasSubstr("layers.yaml:18: outputs: there is no value \"late\""));
  const std::string reshard = "    - {reshard: x, to: whole, as: all_of_it}\n";
  EXPECT_THAT(Error(reshard, reshard + "    - {make: whole, as: late}\n"), "");
  std::string unwritten = kPlan;
  unwritten.replace(unwritten.find(reshard), reshard.size(),
                    reshard + "    - {make: whole, as: late}\n");
  unwritten.replace(unwritten.find("[z]"), 3, "[z, late]");
  EXPECT_THAT(Message(ReadText(unwritten).status()),
              HasSubstr("layers.yaml:18: plan: output \"late\": value \"late\" is read before "
                        "anything was written to it"));

  std::string steps;
  for (size_t i = 0; i < plan::Program::kMaxOps - 1; ++i) {
    steps += "    - {call: f, args: [$x]}\n";
  }
  EXPECT_THAT(Error("    - {reshard: x,", steps + "    - {reshard: x,"),
              HasSubstr("layers.yaml:4109: plan: a program has at most 4,096 operations, and this "
                        "step is one more"));
  steps.clear();
  for (size_t i = 0; i < plan::Program::kMaxValues - 1; ++i) {
    steps += "    - {make: rows, as: y}\n";
  }
  EXPECT_THAT(Error("    - {reshard: x,", steps + "    - {reshard: x,"),
              HasSubstr("layers.yaml:8203: plan: a program has at most 8,192 values, and this step "
                        "is one more"));
}

constexpr char kCollectives[] = R"(plan:
  meshes:
    grid: {axes: {dp: 2, tp: 2}, ranks: 0-3}
  layouts:
    parts: {shape: [8, 6], mesh: grid, placements: [R, shard(1)]}
    sums: {shape: [8, 3], mesh: grid, placements: [R, partial(sum)]}
  inputs: {x: parts}
  steps:
    - {copy: x, as: kept}
    - {call: f, args: [update $x]}
    - {view: x, to: sums, as: s}
    - {allreduce: s, axis: tp, as: total}
    - {reduce_scatter: s, axis: tp, dim: 0, op: max, as: rows}
    - {allgather: x, axis: tp, as: whole}
    - {all_to_all: x, axis: tp, dim: 0, as: columns}
    - {broadcast: x, axis: dp, root: 1, as: second}
    - {copy: kept, as: also}
    - {call: f, args: [$also]}
  outputs: [total, rows, whole, columns, second]
)";

std::string CollectiveError(const std::string& from, const std::string& to) {
  std::string text = kCollectives;
  text.replace(text.find(from), from.size(), to);
  return Message(ReadText(text).status());
}

TEST(PlanFileTest, ReadsCopiesViewsAndCollectives) {
  const StatusOr<PlanFile> file = ReadText(kCollectives);
  ASSERT_TRUE(file.ok()) << file.status();
  std::ostringstream out;
  PrintProgram(out, *file);
  EXPECT_EQ(out.str(), R"(L0 = float32[8, 6] on dp=2,tp=2 {0-3}: replicate, shard(1)
L1 = float32[8, 3] on dp=2,tp=2 {0-3}: replicate, partial(sum)
L2 = float32[8, 3] on dp=2,tp=2 {0-3}: replicate, replicate
L3 = float32[8, 3] on dp=2,tp=2 {0-3}: replicate, shard(0)
L4 = float32[8, 6] on dp=2,tp=2 {0-3}: replicate, replicate
L5 = float32[8, 6] on dp=2,tp=2 {0-3}: replicate, shard(0)

input x: L0
kept: L0 = copy x                                       # layers.yaml:9
f(update x)                                             # layers.yaml:10
s: L1 = view x                                          # layers.yaml:11
total: L2 = allreduce s along tp, sum                   # layers.yaml:12
rows: L3 = reduce-scatter s along tp, dim 0, max        # layers.yaml:13
whole: L4 = allgather x along tp                        # layers.yaml:14
columns: L5 = all-to-all x along tp, dim 0              # layers.yaml:15
second: L0 = broadcast x along dp from 1                # layers.yaml:16
also: L0 = copy kept                                    # layers.yaml:17
f(also)                                                 # layers.yaml:18
output total
output rows
output whole
output columns
output second

lowered to:
kept = copy of x                                        # layers.yaml:9
f(update x)                                             # layers.yaml:10
total = allreduce along tp of s                         # layers.yaml:12
rows = reduce-scatter along tp of s                     # layers.yaml:13
whole = allgather along tp of x                         # layers.yaml:14
columns = exchange of x                                 # layers.yaml:15
second = exchange of x                                  # layers.yaml:16
f(also)                                                 # layers.yaml:18
s lies in x
also lies in kept
)");
}

TEST(PlanFileTest, MistakesInCollectivesAreToldWithTheirLines) {
  EXPECT_THAT(CollectiveError("axis: tp, as: total", "axis: tq, as: total"),
              HasSubstr("layers.yaml:12: allreduce: axis: the mesh of s, dp=2,tp=2 {0, 1, 2, 3}, "
                        "has no axis \"tq\""));
  EXPECT_THAT(CollectiveError("op: max", "op: mox"),
              HasSubstr("layers.yaml:13: reduce_scatter: op: unknown reduction \"mox\""));
  EXPECT_THAT(CollectiveError("dim: 0, op", "op"), HasSubstr("reduce_scatter: dim: expected a "));
  EXPECT_THAT(CollectiveError("root: 1", "root: second"), HasSubstr("broadcast: root: expected"));
  EXPECT_THAT(CollectiveError("root: 1", "root: 2"),
              HasSubstr("layers.yaml:16: broadcast along dp from 2: the axis has the coordinates"));
  EXPECT_THAT(CollectiveError("allgather: x, axis: tp", "allgather: x, axis: tp, op: sum"),
              HasSubstr("layers.yaml:14: allgather: unknown key \"op\""));
  EXPECT_THAT(CollectiveError("view: x", "view: y"), HasSubstr("view: there is no value \"y\""));
  EXPECT_THAT(CollectiveError("to: sums", "to: parts, axis: tp"),
              HasSubstr("unknown key \"axis\""));
  EXPECT_THAT(
      CollectiveError("shape: [8, 3]", "shape: [8, 4]"),
      HasSubstr("layers.yaml:11: a view keeps each rank's tile: rank 0 holds float32[8, 3]"));
  EXPECT_THAT(CollectiveError("copy: x, as: kept", "copy: x"),
              HasSubstr("layers.yaml:9: as: expected a name"));
}

TEST(PlanFileTest, IsExplained) {
  const StatusOr<PlanFile> file = ReadText(kPlan);
  ASSERT_TRUE(file.ok()) << file.status();
  std::ostringstream out;
  const text::Style style(false);
  EXPECT_EQ(ExplainPlan(out, style, *file), OkStatus());
  EXPECT_EQ(ExplainRank(out, style, *file, 3), OkStatus());
  EXPECT_EQ(SimulatePlan(out, *file), OkStatus());
  EXPECT_THAT(
      out.str(),
      AllOf(HasSubstr("4 operations, 5 values, 4 ranks on 2 nodes"),
            HasSubstr("on GPUs: one graph, if these functions say that they may be captured: "
                      "scale (layers.yaml:"),
            HasSubstr("layers.yaml:12  x to all_of_it  allgather along x  12 KiB  12 KiB  "
                      "8 KiB  8 KiB"),
            HasSubstr("scale(all_of_it, write scratch, ..., ..., ..., ...)"),
            HasSubstr("f(update scratch) to y"), HasSubstr("what a function returns"),
            HasSubstr("simulated 4 ranks, ")));
  EXPECT_THAT(Message(ExplainRank(out, style, *file, 4)),
              HasSubstr("rank 4 has no part in the plan; it has ranks 0-3"));
}

TEST(PlanFileTest, TimesHaveThreeDigitsAndAUnitThatFits) {
  const std::pair<double, std::string> cases[] = {
      {0, "0.0 us"},       {2.46, "2.5 us"},    {9.96, "10 us"},     {153.4, "153 us"},
      {999.4, "999 us"},   {999.6, "1.00 ms"},  {1234, "1.23 ms"},   {22212, "22.2 ms"},
      {419'027, "419 ms"}, {999'400, "999 ms"}, {999'600, "1.00 s"}, {12'345'678, "12.3 s"}};
  for (const auto& one : cases) EXPECT_EQ(MicrosText(one.first), one.second);
}

// An all-to-all packs a copy for each other rank, and unpacks as many.
TEST(PlanFileTest, LikeCopiesAreOneRowForPeople) {
  const StatusOr<PlanFile> file = ReadText(R"(plan:
  meshes: {all: {ranks: 0-9}}
  layouts:
    rows: {shape: [10, 45], mesh: all, placements: [shard(0)]}
    columns: {shape: [10, 45], mesh: all, placements: [shard(1)]}
  inputs: {x: rows}
  steps:
    - {reshard: x, to: columns, as: y}
  outputs: [y]
)");
  ASSERT_TRUE(file.ok()) << file.status();
  std::ostringstream out;
  ASSERT_TRUE(ExplainRank(out, text::Style(false), *file, 4).ok());
  EXPECT_THAT(out.str(), AllOf(HasSubstr("9 copies of 16 B to 20 B each, x to #2"),
                               HasSubstr("9 copies of 20 B each, #3 to y"), Not(HasSubstr("1,0"))));
  const StatusOr<RankFacts> facts = FindRank(*file, 4);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(RankToJson(4, *facts)["steps"].size(), 20u) << "9 + 9, its own, and the exchange";
}

TEST(PlanFileTest, RowsOfMemoryThatDifferDoNotLookEqual) {
  // One has 501 rows of the result, the other 500.
  const StatusOr<PlanFile> file = ReadText(R"(plan:
  meshes: {all: {ranks: 0-1}}
  layouts:
    rows: {shape: [1001, 1000], mesh: all, placements: [shard(0)]}
    columns: {shape: [1001, 1000], mesh: all, placements: [shard(1)]}
    whole: {shape: [1001, 1000], mesh: all, placements: [replicate]}
    parts: {shape: [1001, 1000], mesh: all, placements: [partial(sum)]}
  inputs: {x: columns}
  steps:
    - {reshard: x, to: whole, as: w}
    - {call: f, args: [$w], result: parts, as: p}
    - {reshard: p, to: rows, as: y}
    - {call: g, args: [update $y]}
  outputs: [y]
)");
  ASSERT_TRUE(file.ok()) << file.status();
  std::ostringstream out;
  ASSERT_TRUE(ExplainPlan(out, text::Style(false), *file).ok());
  EXPECT_THAT(out.str(), AllOf(HasSubstr("MiB  10,012,096 B\n"), HasSubstr("MiB  10,008,064 B\n")));
  std::ostringstream rank;
  ASSERT_TRUE(ExplainRank(rank, text::Style(false), *file, 1).ok());
  EXPECT_THAT(rank.str(), HasSubstr("  #N: a buffer that is needed in between, and is no value's"));
}

TEST(PlanFileTest, WhatCannotBeCapturedOnGpusIsNamed) {
  std::string text = kPlan;
  text.replace(text.find("{call: scale, args: [$all_of_it"), 31,
               "{call: lockstep.identity, args: [$all_of_it");
  const StatusOr<PlanFile> file = ReadText(text);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(Describe(FindGraphOnGpus(file->program())),
            "step by step, as layers.yaml:14 calls lockstep.identity, which cannot be captured");
}

// kPlan with a call in chunks, which is written so.
std::string InChunks(const std::string& chunks) {
  std::string text = kPlan;
  const std::string f = "    - {call: f, args: [update $scratch], result: whole, as: y}\n";
  text.replace(
      text.find(f), f.size(),
      "    - {call: f, args: [2, $all_of_it], result: whole, as: y, chunks: " + chunks + "}\n");
  const std::string scale = "    - {call: scale,";
  return text.erase(text.find(scale), text.find('\n', text.find(scale)) + 1 - text.find(scale));
}

TEST(PlanFileTest, ACallMayBeInChunks) {
  const StatusOr<PlanFile> file = ReadText(InChunks("{count: 4, input: all_of_it, along: 0}"));
  ASSERT_TRUE(file.ok()) << file.status();
  std::ostringstream out;
  ASSERT_TRUE(ExplainPlan(out, text::Style(false), *file).ok());
  EXPECT_THAT(out.str(), AllOf(HasSubstr("layers.yaml:14: in 4 chunks: "),
                               HasSubstr("x.3 to all_of_it.3"), HasSubstr("y.4 to z.4")));
  std::ostringstream rank;
  ASSERT_TRUE(ExplainRank(rank, text::Style(false), *file, 2).ok());
  EXPECT_THAT(rank.str(),
              AllOf(HasSubstr("layers.yaml:14, chunk 4 of 4"), HasSubstr("x, from element 768")));

  EXPECT_THAT(out.str(), HasSubstr("3 operations, 5 values")) << "as the file has it";
  EXPECT_EQ(file->written->ops().size(), 3u);

  EXPECT_THAT(Message(ReadText(InChunks("4")).status()),
              HasSubstr("layers.yaml:14: f: chunks: expected a map"));
  EXPECT_THAT(Message(ReadText(InChunks("{count: x, input: scratch}")).status()),
              AllOf(HasSubstr("chunks: count: expected a number"),
                    HasSubstr("chunks: input: scratch is none of its args")));
  EXPECT_THAT(Message(ReadText(InChunks("{count: 4, input: all_of_it, allong: 0}")).status()),
              HasSubstr("allong"));
  EXPECT_THAT(Message(ReadText(InChunks("{count: 4, input: all_of_it, along: 2}")).status()),
              HasSubstr("along dimension 2 of its argument"));
}

TEST(PlanFileTest, BuiltInFunctionsHaveToExist) {
  EXPECT_THAT(Error("call: f,", "call: lockstep.castt,"),
              HasSubstr("layers.yaml:15: call: there is no function \"lockstep.castt\"; did you "
                        "mean lockstep.cast"));
  EXPECT_EQ(Error("call: f,", "call: lockstep.cast,"), "");
  EXPECT_EQ(Error("call: f,", "call: lockstep.castt, module: m,"), "") << "the module's affair";
}

TEST(PlanFileTest, FunctionsOfModulesAreNamedByOneModuleEach) {
  const std::string call = "- {call: f, args: [update $scratch], result: whole, as: y}";
  EXPECT_THAT(Error(call, call + "\n    - {call: f, module: m, args: [update $scratch]}"),
              HasSubstr("layers.yaml:16: f: another step calls the function of this name from no "
                        "module"));
  EXPECT_THAT(Error("{call: f,", "{call: f, module: 1m,"), HasSubstr("the register of a module"));
  std::string text = kPlan;
  text.replace(text.find("{call: f,"), 9, "{call: f, module: m,");
  const StatusOr<PlanFile> file = ReadText(text);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->modules, ElementsAre(std::pair<const std::string, std::string>("f", "m")));
}

TEST(PlanFileTest, IsExplainedToScripts) {
  const StatusOr<PlanFile> file = ReadText(kPlan);
  ASSERT_TRUE(file.ok()) << file.status();
  const Json plan = PlanToJson(*file);
  EXPECT_EQ(plan["operations"], 4);
  EXPECT_EQ(plan["nodes"], 2);
  EXPECT_THAT(plan["graph_on_gpus"].get<std::string>(), HasSubstr("one graph, if"));
  ASSERT_EQ(plan["reshards"].size(), 2u);
  const Json& gather = plan["reshards"][0];
  EXPECT_EQ(gather["where"], "layers.yaml:12");
  EXPECT_EQ(gather["as"], "allgather along x");
  EXPECT_EQ(gather["busiest_rank_bytes"], 12 << 10);
  EXPECT_EQ(gather["busiest_node_bound_bytes"], 8 << 10);
  EXPECT_EQ(plan["memory"][0]["ranks"], (Json{0, 1, 2, 3}));
  const StatusOr<RankFacts> facts = FindRank(*file, 3);
  ASSERT_TRUE(facts.ok()) << facts.status();
  const Json rank = RankToJson(3, *facts);
  EXPECT_EQ(rank["steps"][0]["kind"], "allgather");
  EXPECT_EQ(rank["steps"][2]["what"], "f(update scratch) to y");
  EXPECT_EQ(rank["buffers"][0]["shape"], (Json{16, 64}));
  EXPECT_EQ(rank["buffers"][0]["offset"], nullptr) << "an input lies in its register";
  const StatusOr<SimulationFacts> simulation = RunSimulation(*file);
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  EXPECT_EQ(SimulationToJson(*simulation)["ranks"], 4);
}

// Two ranks meet in an allgather and call a function; rank 1 comes later, and is slower.
constexpr char kPair[] = R"(plan:
  meshes: {all: {ranks: 0-1}}
  layouts:
    rows: {shape: [64, 64], mesh: all, placements: [shard(0)]}
    whole: {shape: [64, 64], mesh: all, placements: [replicate]}
  inputs: {x: rows}
  steps:
    - {reshard: x, to: whole, as: y}
    - {call: f, args: [update $y]}
  outputs: [y]
)";

constexpr char kGather[] = "allgather, layers.yaml:8";
constexpr char kCall[] = "f, layers.yaml:9";

TEST(PlanFileTest, WhatStepsTookIsPutBesideWhatWasPredicted) {
  const StatusOr<PlanFile> file = ReadText(kPair);
  ASSERT_TRUE(file.ok()) << file.status();
  std::map<Rank, std::vector<MeasuredStep>> measured;
  for (const uint64_t execution : {7, 8, 9}) {
    const auto at = static_cast<int64_t>(execution) * 1'000'000;
    measured[0].push_back({execution, 0, at, at + 50'000, kGather});
    measured[0].push_back({execution, 1, at + 50'000, at + 53'000, kCall});
    measured[1].push_back({execution, 0, at + 20'000, at + 60'000, kGather});
    // Once it takes long: that is not the median.
    measured[1].push_back(
        {execution, 1, at + 60'000, at + (execution == 8 ? 900'000 : 64'000), kCall});
  }
  const StatusOr<PlanAnalysis> analysis = Analyze(*file, measured);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_EQ(analysis->executions, 3u);
  EXPECT_EQ(analysis->fastest, 64);
  EXPECT_EQ(analysis->median, 64);
  EXPECT_EQ(analysis->slowest, 900);
  EXPECT_EQ(analysis->slowest_rank, 1);
  const std::vector<StepAnalysis>& first = analysis->ranks.at(0).times;
  EXPECT_EQ(first[0].waited, 20);
  EXPECT_EQ(first[0].measured, 30);
  EXPECT_EQ(first[0].predicted, analysis->predicted) << "functions are not predicted";
  EXPECT_TRUE(first[0].is_predicted);
  EXPECT_FALSE(first[1].is_predicted);
  EXPECT_EQ(analysis->ranks.at(1).times[0].measured, 40);
  EXPECT_EQ(analysis->ranks.at(1).times[0].waited, 0);
  std::ostringstream out;
  PrintAnalysis(out, text::Style(false), *file, *analysis, 0);
  EXPECT_THAT(out.str(),
              AllOf(HasSubstr("3 executions on 2 ranks: 64 us each (median; 64 us to "
                              "900 us), predicted "),
                    HasSubstr("Steps of rank 0\n"), HasSubstr("layers.yaml:8"),
                    HasSubstr("30 us   20 us    40 us  rank 1"), HasSubstr("layers.yaml:9")));
  EXPECT_EQ(AnalysisToJson(*file, *analysis)["ranks"][1]["steps"][1]["predicted_us"], nullptr);
}

TEST(PlanFileTest, AnAnalyzedPlanNeedsAWorkerForEachRank) {
  const StatusOr<PlanFile> file = ReadText(kPlan);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(CheckWorkers(*file, 4), OkStatus());
  EXPECT_EQ(Message(CheckWorkers(*file, 2)),
            "the plan has ranks 0-3, and so needs 4 workers; there are 2");
}

TEST(PlanFileTest, OtherStepsThanARankHasAreNotCompared) {
  const StatusOr<PlanFile> file = ReadText(kPair);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<MeasuredStep> whole = {{1, 0, 0, 1, kGather}, {1, 1, 1, 2, kCall}};
  EXPECT_EQ(Analyze(*file, {{0, whole}, {1, whole}}).status(), OkStatus());
  EXPECT_THAT(Message(Analyze(*file, {{0, whole}}).status()),
              HasSubstr("rank 1 has recorded 0 steps of 1 execution, and has 2 in each"));
  std::vector<MeasuredStep> other = whole;
  other[1].step = 7;
  EXPECT_THAT(Message(Analyze(*file, {{0, other}, {1, whole}}).status()),
              HasSubstr("rank 0 has recorded other steps"));
  other = whole;
  other[0].name = "alltoall, layers.yaml:8";
  EXPECT_THAT(Message(Analyze(*file, {{0, other}, {1, whole}}).status()),
              HasSubstr("rank 0 has recorded other steps"));
}

TEST(PlanFileTest, IsDrawn) {
  const StatusOr<PlanFile> file = ReadText(kPlan);
  ASSERT_TRUE(file.ok()) << file.status();
  const StatusOr<Drawing> picture = DrawPlan(*file, 2);
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_THAT(picture->svg,
              AllOf(HasSubstr("<svg "), HasSubstr("Memory of rank 2: "),
                    HasSubstr("<title>step 0: allgather of ranks 0-3, layers.yaml:12"),
                    HasSubstr("<title>scratch: 16 KiB, steps "), HasSubstr("</svg>")));
  EXPECT_THAT(Message(DrawPlan(*file, 9).status()), HasSubstr("rank 9 has no part in the plan"));
}

TEST(PlanFileTest, OfManyRanksThoseAroundOneAreDrawn) {
  // Rank 0 has a call more, for which all others wait.
  const StatusOr<PlanFile> file = ReadText(R"(plan:
  meshes: {all: {ranks: 0-99}, one: {ranks: 0-0}}
  layouts:
    rows: {shape: [200, 2], mesh: all, placements: [shard(0)]}
    whole: {shape: [200, 2], mesh: all, placements: [replicate]}
    alone: {shape: [2], mesh: one, placements: [replicate]}
  inputs: {x: rows, y: alone}
  steps:
    - {call: f, args: [update $y]}
    - {call: g, args: [update $x]}
    - {reshard: x, to: whole, as: z}
  outputs: [z]
)");
  ASSERT_TRUE(file.ok()) << file.status();
  const std::pair<Rank, std::string> cases[] = {
      {0, "ranks 0-63"}, {50, "ranks 18-81"}, {90, "ranks 36-99"}};
  for (const auto& one : cases) {
    const StatusOr<Drawing> drawing = DrawPlan(*file, one.first);
    ASSERT_TRUE(drawing.ok()) << drawing.status();
    EXPECT_EQ(drawing->ranks.size(), 64u);
    EXPECT_EQ(Describe(*drawing),
              "steps of " + one.second + ", of 100; memory of rank " + std::to_string(one.first));
    EXPECT_THAT(drawing->svg, AllOf(HasSubstr(one.second + ", of 100<"),
                                    HasSubstr("Memory of rank " + std::to_string(one.first)),
                                    HasSubstr("<title>wait before step 1: allgather")));
  }
  EXPECT_EQ(Describe(Drawing{"", {2, 3}, 2, 3}), "steps of ranks 2, 3; memory of rank 3");
}

TEST(PlanFileTest, PicturesHaveNoControlCharacters) {
  std::string text = kPlan;
  text.replace(text.find("call: f,"), 8, R"(call: "f<",)");
  const StatusOr<PlanFile> file = ReadText(text);
  ASSERT_TRUE(file.ok()) << file.status();
  const StatusOr<Drawing> picture = DrawPlan(*file, 0);
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_THAT(picture->svg, HasSubstr(R"(f\x1b&lt;, layers.yaml:15)"));
  EXPECT_EQ(picture->svg.find('\x1b'), std::string::npos);
}

// Where lanes overlap, a buffer of exchanges counts as used until calls have waited for them; but
// the next exchange may have its place at once. A map that shows the first hides the second.
TEST(PlanFileTest, BuffersAreDrawnWhereStepsUseThem) {
  const StatusOr<PlanFile> file = ReadText(R"(plan:
  meshes: {all: {ranks: 0-3}}
  layouts:
    rows: {shape: [64, 64], mesh: all, placements: [shard(0)]}
    columns: {shape: [64, 64], mesh: all, placements: [shard(1)]}
  inputs: {x: rows}
  steps:
    - {reshard: x, to: columns, as: y}
    - {allgather: y, axis: x, as: z}
    - {call: f, args: [$z]}
  outputs: [y]
)");
  ASSERT_TRUE(file.ok()) << file.status();
  const plan::ProgramSteps steps = file->StepsOf(0);
  int packing = -1;  // the first buffer that is sent from
  int sent = -1;     // by this step
  for (size_t i = 0; i < steps.steps.size(); ++i) {
    const auto* const exchange = std::get_if<plan::CollectiveStep>(&steps.steps[i].what);
    if (exchange == nullptr) continue;
    packing = exchange->send.buffer;
    sent = static_cast<int>(i);
    break;
  }
  ASSERT_GE(sent, 0);
  ASSERT_GT(steps.buffers[static_cast<size_t>(packing)].last_step, sent) << "until calls waited";
  const StatusOr<Drawing> picture = DrawPlan(*file, 0);
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_THAT(picture->svg, HasSubstr("#" + std::to_string(packing) + ": 3 KiB, steps 1 to " +
                                      std::to_string(sent) + "<"));
}

// Two ranks, of which one has a call more before they meet.
TEST(PlanFileTest, ASchedulePutsWaitsWhereRanksMeet) {
  std::map<Rank, plan::ProgramSteps> ranks;
  const plan::CollectiveStep meet{0,         OperationKind::kAllReduce, {0, 1}, {0, 0, 8},
                                  {0, 0, 8}, Reduction::kSum,           {},     {}};
  for (const Rank rank : {0, 1}) {
    ranks[rank].buffers.push_back({plan::StepBuffer::Home::kInput, DType::kInt8, {8}});
    if (rank == 1) ranks[rank].steps.push_back({plan::CallStep{}, 0});
    ranks[rank].steps.push_back({meet, 0});
  }
  const plan::CostModel costs;
  const auto schedule = Schedule(ranks, plan::Topology(), costs);
  const ScheduledStep& waits = schedule.at(0)[0];
  EXPECT_EQ(waits.arrived, 0);
  EXPECT_EQ(waits.begin, kCallMicros);
  EXPECT_EQ(waits.end, kCallMicros + costs.step_us + 8 * costs.us_per_byte);
  EXPECT_EQ(schedule.at(1)[1].arrived, kCallMicros);
  EXPECT_EQ(schedule.at(1)[1].end, waits.end);
}

// Allgathers of one collective in two rows of a grid over two nodes, an allreduce, a
// reduce-scatter: the schedule, which pictures and analyses show, says of each what the table says.
TEST(PlanFileTest, AScheduleTakesAsLongAsTheTableSays) {
  const StatusOr<PlanFile> file = ReadText(R"(plan:
  nodes: [0, 0, 1, 1]
  meshes:
    all: {ranks: 0-3}
    grid: {axes: {x: 2, y: 2}, ranks: [0, 2, 1, 3]}
  layouts:
    tiles: {shape: [64, 64], dtype: f32, mesh: grid, placements: [shard(1), shard(0)]}
    columns: {shape: [64, 64], dtype: f32, mesh: grid, placements: [shard(1), replicate]}
    sums: {shape: [64, 64], dtype: f32, mesh: all, placements: [partial(sum)]}
    whole: {shape: [64, 64], dtype: f32, mesh: all, placements: [replicate]}
    rows: {shape: [64, 64], dtype: f32, mesh: all, placements: [shard(0)]}
  inputs: {x: tiles, p: sums}
  steps:
    - {reshard: x, to: columns, as: gathered}
    - {reshard: p, to: whole, as: reduced}
    - {reshard: p, to: rows, as: scattered}
  outputs: [gathered, reduced, scattered]
)");
  ASSERT_TRUE(file.ok()) << file.status();
  const Json reshards = PlanToJson(*file)["reshards"];
  std::map<Rank, plan::ProgramSteps> ranks;
  for (const Rank rank : file->program().Ranks()) ranks.emplace(rank, file->StepsOf(rank));
  const auto schedule = Schedule(ranks, file->topology, plan::CostModel());
  ASSERT_EQ(schedule.at(0).size(), reshards.size());
  for (size_t i = 0; i < reshards.size(); ++i) {
    const ScheduledStep& step = schedule.at(0)[i];
    EXPECT_NEAR(step.end - step.begin, reshards[i]["predicted_us"].get<double>(), 1e-6)
        << reshards[i]["as"];
  }
}

// A call goes on beside a copy of the other lane, and the next one waits for that.
TEST(PlanFileTest, AScheduleHasTwoLanes) {
  constexpr int64_t kBytes = 1 << 20;
  const plan::CostModel costs;
  const double copied = kBytes * costs.copy_us_per_byte;
  std::map<Rank, plan::ProgramSteps> ranks;
  plan::ProgramSteps& steps = ranks[0];
  steps.lanes_overlap = true;
  steps.buffers.assign(2, {plan::StepBuffer::Home::kInput, DType::kInt8, {kBytes}});
  const plan::CopyStep copy{0, 1, {}, {}, {kBytes}, 0, kBytes};
  steps.steps = {{copy, 0, plan::Lane::kCommunication},
                 {plan::CallStep{}, 0},
                 {plan::CallStep{}, 0, plan::Lane::kCompute, 0}};
  const auto schedule = Schedule(ranks, plan::Topology(), costs);
  EXPECT_EQ(schedule.at(0)[1].begin, 0);
  EXPECT_EQ(schedule.at(0)[1].end, kCallMicros);
  EXPECT_EQ(schedule.at(0)[2].begin, std::max(copied, kCallMicros));
}

}  // namespace
}  // namespace lockstep::cli::plan_file
