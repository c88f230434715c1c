// Programs as text: what each line says, whatever the names are.
#include "runtime/plan/passes/program_text.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::plan {
namespace {

Layout OnLine(std::vector<Rank> ranks, Placement placement, const Shape& shape = {4, 6}) {
  return *Layout::Make(shape, DType::kFloat16, *Mesh::Line(std::move(ranks)), {placement});
}

const Layout kTextRows = OnLine({0, 1, 2, 5, 4}, Placement::Shard(0));

// With a line that does not change with this file.
constexpr SourceLine kLine{"/home/someone/train.py", 7};

TEST(ProgramTextTest, SaysWhatTheProgramSays) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kTextRows);
  const ValueId made = builder.Make(kTextRows);
  builder.Call("f", {Read(x), Write(made), Pass(2.0), Pass(-0.25), Pass(int64_t{2}), Pass(false)},
               kLine);
  const ValueId g =
      builder.Call("my function",
                   {Update(made), Pass(std::string("a \"b\"\n")), Pass(Shape({2, 3})),
                    Pass(DType::kInt8), Pass(1e300), Pass(std::numeric_limits<double>::infinity())},
                   kTextRows, kLine);
  builder.Output("y", builder.Reshard(g, OnLine({0}, Placement::Replicate()), kLine));
  EXPECT_EQ(ToText(*builder.Build()), R"(L0 = float16[4, 6] on x=5 {0-2, 5, 4}: shard(0)
L1 = float16[4, 6] on x=1 {0}: replicate

input x: L0
%1: L0 = make
f(x, write %1, 2.0, -0.25, 2, false)                    # train.py:7
%2: L0 = "my function"(update %1, "a \"b\"\n", [2, 3], int8, 1e+300, inf)  # train.py:7
y: L1 = reshard %2                                      # train.py:7
output y
)");
}

TEST(ProgramTextTest, NamesThatAreNotOneValuesHaveItsNumber) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kTextRows);
  const ValueId y = builder.Copy(x, kLine);
  builder.Output("x", y);
  builder.Output("a b", builder.Copy(y, kLine));
  EXPECT_EQ(ToText(*builder.Build()), R"(L0 = float16[4, 6] on x=5 {0-2, 5, 4}: shard(0)

input x = x%0: L0
x%1: L0 = copy x%0                                      # train.py:7
"a b": L0 = copy x%1                                    # train.py:7
output x = x%1
output "a b"
)");
  EXPECT_EQ(ToText(*builder.Build(), std::vector<std::string>{"in", "", "out"}),
            R"(L0 = float16[4, 6] on x=5 {0-2, 5, 4}: shard(0)

input x = in: L0
x: L0 = copy in                                         # train.py:7
out: L0 = copy x                                        # train.py:7
output x
output "a b" = out
)");
}

TEST(ProgramTextTest, SaysWhatIsLeftOfIt) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kTextRows);
  const ValueId same = builder.Copy(x, kLine);
  const ValueId whole = builder.AllGather(same, "x", kLine);
  const ValueId y = builder.Call("f", {Read(whole)}, builder.LayoutOf(whole), kLine);
  builder.Output("y", y);
  builder.Output("z", builder.Copy(y, kLine));
  const LoweredProgram lowered =
      *LowerProgram(std::make_shared<const Program>(*builder.Build()), Topology(), CostModel());
  EXPECT_EQ(ToText(lowered), R"(%2 = allgather along x of %1                            # train.py:7
y = f(%2)                                               # train.py:7
z = copy of y                                           # train.py:7
%1 lies in x
)");
}

TEST(ProgramTextTest, OfNothingIsNothing) { EXPECT_EQ(ToText(*ProgramBuilder().Build()), ""); }

TEST(ProgramTextTest, SaysWhatIsDoneInChunks) {
  const Layout rows = OnLine({0, 1}, Placement::Shard(0));
  ProgramBuilder builder;
  const ValueId whole =
      builder.Reshard(builder.Input("x", rows), OnLine({0, 1}, Placement::Replicate()), kLine);
  builder.Output(
      "y", builder.CallInChunks("f", {Read(whole)}, builder.LayoutOf(whole), {.count = 2}, kLine));
  EXPECT_EQ(ToText(*builder.Build()), R"(L0 = float16[4, 6] on x=2 {0-1}: shard(0)
L1 = float16[4, 6] on x=2 {0-1}: replicate

input x: L0
%1: L1 = reshard x                                      # train.py:7
y: L1 = f(%1) in 2 chunks along 0 of argument 0, to 0   # train.py:7
output y
)");
  const LoweredProgram lowered =
      *LowerProgram(std::make_shared<const Program>(*builder.Build()), Topology(), CostModel());
  EXPECT_EQ(
      ToText(lowered),
      R"(x.1: L2 = chunk 1 of 2 along 0 of x, in its place where it lies in a row  # train.py:7, chunk 1 of 2
%5 = allgather along x of x.1                           # train.py:7, chunk 1 of 2
x.2: L2 = chunk 2 of 2 along 0 of x, in its place where it lies in a row  # train.py:7, chunk 2 of 2
%6 = allgather along x of x.2                           # train.py:7, chunk 2 of 2
y.1 = f(%5)                                             # train.py:7, chunk 1 of 2
put y.1 into chunk 1 of 2 along 0 of y, in its place where it lies in a row  # train.py:7, chunk 1 of 2
y.2 = f(%6)                                             # train.py:7, chunk 2 of 2
put y.2 into chunk 2 of 2 along 0 of y, in its place where it lies in a row  # train.py:7, chunk 2 of 2
)");
}

}  // namespace
}  // namespace lockstep::plan
