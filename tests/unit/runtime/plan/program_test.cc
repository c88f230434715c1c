// Programs: what is refused when they are made.
#include "runtime/plan/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/runtime/plan/program_under_test.h"

namespace lockstep::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using testing::kColumns;
using testing::kOthers;
using testing::kRows;
using testing::LayoutOn;
using testing::LineOf;

std::string Error(const ProgramBuilder& builder) { return Message(builder.Build().status()); }

TEST(ProgramTest, ErrorsNameTheLine) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId unwritten = builder.Make(kRows);
  builder.Call("f", {Read(x), Read(unwritten)});
  const std::string line = "program_test.cc:" + std::to_string(__LINE__ - 1);
  EXPECT_EQ(Error(builder),
            line + ": f: argument 2: value 1 is read before anything was written to it");
}

TEST(ProgramTest, WhatCannotBeIsRefused) {
  {
    ProgramBuilder builder;
    builder.Call("f", {Read(builder.Input("x", kRows)), Read(builder.Input("y", kOthers))});
    EXPECT_THAT(Error(builder), HasSubstr("its tensors are held by different ranks: ranks 0, 1, "
                                          "and ranks 2, 3; reshard one of them first"));
  }
  {
    ProgramBuilder builder;
    builder.Call("f", {Pass(int64_t{1})});
    EXPECT_THAT(Error(builder), HasSubstr("a call without tensors"));
  }
  {
    ProgramBuilder builder;
    const ValueId x = builder.Input("x", kRows);
    builder.Call("f", {Read(x), Update(x)});
    EXPECT_THAT(Error(builder), HasSubstr("value \"x\" is written, and is another argument, too"));
  }
  {
    ProgramBuilder builder;
    builder.Output("x", builder.Input("x", kRows));
    EXPECT_THAT(Error(builder), HasSubstr("output \"x\" is an input"));
  }
  {
    ProgramBuilder builder;
    builder.Input("x", kRows);
    builder.Input("x", kRows);
    EXPECT_THAT(Error(builder), HasSubstr("two inputs of a program are called \"x\""));
  }
  {
    ProgramBuilder builder;
    const ValueId y = builder.Call("f", {Read(builder.Input("x", kRows))}, kRows);
    builder.Output("y", y);
    builder.Output("z", y);
    EXPECT_THAT(Error(builder), HasSubstr("one value is named as output twice; the first name is"));
  }
  {
    ProgramBuilder builder;
    builder.Reshard(builder.Input("x", kRows),
                    LayoutOn(LineOf({0, 1}), Placement::Partial(Reduction::kAvg)));
    EXPECT_THAT(Error(builder), HasSubstr("partial values of an average"));
  }
  {
    ProgramBuilder builder;
    builder.Reshard(ValueId{7}, kRows);
    EXPECT_THAT(Error(builder), HasSubstr("there is no value 7 in this program"));
  }
}

TEST(ProgramTest, WrongCollectivesNameTheLine) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  builder.AllGather(builder.AllGather(x, "x"), "tp");
  const std::string line = "program_test.cc:" + std::to_string(__LINE__ - 1);
  EXPECT_EQ(Error(builder), line + ": allgather along tp: the mesh x=2 {0, 1} has no such axis");
  ProgramBuilder unknown;
  unknown.AllReduce(ValueId{3}, "x", Reduction::kSum);
  EXPECT_THAT(Error(unknown), HasSubstr("there is no value 3 in this program"));
}

TEST(ProgramTest, AViewKeepsEachTile) {
  const auto error = [](const Layout& from, const Layout& to) {
    ProgramBuilder builder;
    builder.As(builder.Input("x", from), to);
    return Error(builder);
  };
  EXPECT_EQ(error(kRows, LayoutOn(LineOf({1, 0}), Placement::Partial(Reduction::kSum), {32, 64})),
            "");
  EXPECT_THAT(error(kRows, kColumns),
              AllOf(HasSubstr("program_test.cc:"),
                    HasSubstr("a view keeps each rank's tile: rank 0 holds float32[32, 64] of "),
                    HasSubstr("and it would hold float32[64, 32] of ")));
  EXPECT_THAT(error(kRows, LayoutOn(LineOf({0, 1}), Placement::Shard(0), {64, 64}, DType::kInt32)),
              HasSubstr("it would hold int32[32, 64] of "));
  EXPECT_THAT(error(kRows, LayoutOn(LineOf({1, 2}), Placement::Shard(0))),
              AllOf(HasSubstr("rank 2 of "), HasSubstr(" holds nothing of ")));
}

}  // namespace
}  // namespace lockstep::plan
