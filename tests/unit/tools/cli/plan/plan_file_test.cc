// The `plan:` section of a program file: what is read, and what is refused.
#include "tools/cli/plan/plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>

#include "tests/unit/tools/cli/plan/plan_text.h"
#include "tools/cli/plan/explain.h"
#include "tools/cli/plan/explain_text.h"
#include "tools/text/terminal.h"

namespace lockstep::cli::plan_file {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

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
  EXPECT_THAT(
      Error("- {make: whole", "- {mak: whole"),
      HasSubstr("expected one of the keys call, fragment, reshard, make, copy, view, allreduce, "
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
  EXPECT_THAT(Message(ReadText(InChunks("{count: 4}")).status()),
              HasSubstr("layers.yaml:14: f: chunks: input: expected one of its args"));
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

TEST(PlanFileTest, FragmentsAreFilesBesideThePlan) {
  const StatusOr<PlanFile> file = ReadText(kFragments);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->fragments, ElementsAre(Pair("scale.mlir", EndsWith("/scale.mlir")),
                                           Pair("sum.mlir", EndsWith("/sum.mlir"))));
  const plan::Program& program = file->program();
  const auto& call = std::get<plan::CallOp>(program.ops()[0].what);
  EXPECT_THAT(call.arguments, ElementsAre(plan::Read(plan::ValueId{0}), plan::Pass(int64_t{2}),
                                          plan::Write(plan::ValueId{1})));
  EXPECT_EQ(program.value(plan::ValueId{1}).layout.ToString(),
            "float64[1024] on x=4 {0, 1, 2, 3}: x=shard(0)");
  const auto& last = std::get<plan::CallOp>(program.ops().back().what);
  EXPECT_THAT(program.RanksOf(last), ElementsAre(1, 3));
}

TEST(PlanFileTest, MistakesInFragmentsAreToldWithTheirLines) {
  const auto error = [](const std::string& old, const std::string& now) {
    std::string text = kFragments;
    text.replace(text.find(old), old.size(), now);
    return Message(ReadText(text).status());
  };
  EXPECT_THAT(error("fragment: scale.mlir", "fragment: none.mlir"),
              HasSubstr("layers.yaml:8: none.mlir: there is no file "));
  EXPECT_THAT(error("rows $x", "columns $x"),
              HasSubstr("layers.yaml:8: scale.mlir: argument 0 of `scale.mlir` cannot be split by "
                        "columns"));
  EXPECT_THAT(error("rows $x", "$x"),
              HasSubstr("cannot be combined by rows: no argument is split"));
  EXPECT_THAT(error("rows $x", "write $x"), HasSubstr("a fragment only reads what it is given"));
  EXPECT_THAT(error("rows $x", "rows $z"), HasSubstr("there is no value \"z\""));
  EXPECT_THAT(error("rows $x", "roes $x"),
              HasSubstr("\"roes\" is no split; there are rows, columns, none, placed"));
  EXPECT_THAT(error("combine: rows", "combine: row"), HasSubstr("rows"));
  EXPECT_THAT(error("shape: [1024],\n", "\n"), HasSubstr("only workers compile a fragment"));
  EXPECT_THAT(error("on: two", "on: tow"), HasSubstr("there is no mesh \"tow\""));
  EXPECT_THAT(error("placed $y], results: [{as: s, combine: add",
                    "placed $y], results: [{as: s, combine: none"),
              HasSubstr("cannot be combined by none in a plan"));
}

}  // namespace
}  // namespace lockstep::cli::plan_file
