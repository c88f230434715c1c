// Programs on the wire: what comes back, and what is refused of hostile ones.
#include "runtime/plan/program_codec.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/plan/program.h"
#include "tests/unit/runtime/plan/program_under_test.h"

namespace lockstep::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using testing::kOthers;
using testing::kRows;
using testing::LayoutOn;
using testing::LineOf;

// Of every kind of argument and operation.
Program Everything() {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId scratch = builder.Make(kRows);
  builder.Call("f", {Read(x), Write(scratch), Pass(true), Pass(int64_t{-7}), Pass(0.5),
                     Pass(std::string("text")), Pass(Shape({2, 3})), Pass(DType::kInt8)});
  const ValueId y = builder.Call("g", {Update(scratch)}, kRows);
  builder.Output("y", builder.Reshard(y, kOthers));
  builder.Output("copy", builder.Copy(y));
  builder.Output("view", builder.As(y, LayoutOn(LineOf({0, 1}), Placement::Shard(1), {32, 128})));
  builder.Output("reduced", builder.AllReduce(y, "x", Reduction::kMax));
  builder.Output("scattered", builder.ReduceScatter(y, "x", 1, Reduction::kAvg));
  builder.Output("gathered", builder.AllGather(y, "x"));
  builder.Output("exchanged", builder.AllToAll(y, "x", 1));
  builder.Output("sent", builder.Broadcast(y, "x", 1));
  const ValueId whole = builder.Reshard(y, LayoutOn(LineOf({0, 1}), Placement::Replicate()));
  builder.CallInChunks("h", {Pass(1.5), Read(whole)}, builder.LayoutOf(whole),
                       {.count = 4, .argument = 1, .along = 1, .result_along = 1});
  return *builder.Build();
}

TEST(ProgramCodecTest, ComesBackFromTheWireAsItWas) {
  const Program program = Everything();
  capnp::MallocMessageBuilder message;
  WriteProgram(message.initRoot<wire::Program>(), program);
  const auto reader = message.getRoot<wire::Program>().asReader();
  EXPECT_EQ(reader.getLayouts().size(), 7u) << "each once";
  const StatusOr<Program> read = ReadProgram(reader, 4);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, program);
  EXPECT_THAT(Message(ReadProgram(reader, 3).status()), HasSubstr("the mesh names rank 3"));
}

TEST(ProgramCodecTest, HostileMessagesAreRefused) {
  const auto error = [](auto&& change) {
    capnp::MallocMessageBuilder message;
    auto builder = message.initRoot<wire::Program>();
    WriteProgram(builder, Everything());
    change(builder);
    return Message(ReadProgram(builder.asReader(), 4).status());
  };
  EXPECT_THAT(error([](auto program) { program.setVersion(77); }),
              HasSubstr("the program has the format 77"));
  EXPECT_THAT(error([](auto program) { program.getValues()[0].setLayout(9); }),
              HasSubstr("a value has layout 9, and there are 7"));
  EXPECT_THAT(error([](auto program) { program.getInputs().set(0, 4'000'000'000); }),
              HasSubstr("there is no value"));
  EXPECT_THAT(error([](auto program) { program.getOutputs().set(0, 1); }), HasSubstr("no name"));
  EXPECT_THAT(error([](auto program) { program.getOps()[0].getCall().setFunction(3); }),
              HasSubstr("there is no function 3"));
  EXPECT_THAT(error([](auto program) { program.getOps()[1].getCall().setResult(0); }),
              HasSubstr("value \"x\" is the result of two operations"));
  EXPECT_THAT(
      error([](auto program) { program.getOps()[0].getCall().getArguments()[0].setRead(-5); }),
      HasSubstr("there is no value -5"));
  EXPECT_THAT(
      error([](auto program) { program.getOps()[11].getCall().getChunks().setArgument(-1); }),
      HasSubstr("the argument of its chunks, number -1 from 0 on, is no tensor"));
  EXPECT_THAT(
      error([](auto program) { program.getOps()[11].getCall().getChunks().setCount(1 << 30); }),
      HasSubstr("in 1 to 64 chunks, not 1073741824"));
  EXPECT_THAT(
      error([](auto program) { program.getOps()[11].getCall().getChunks().setResultAlong(-1); }),
      HasSubstr("along dimension -1 of its result"));
  EXPECT_THAT(error([](auto program) { program.getOps()[2].getReshard().setTarget(0); }),
              HasSubstr("value \"x\" is the result of two operations"));
  EXPECT_THAT(error([](auto program) { program.getOps()[3].getView().setSource(1 << 30); }),
              HasSubstr("there is no value 1073741824"));
  EXPECT_THAT(error([](auto program) { program.getOps()[4].getView().setTarget(2); }),
              HasSubstr("value 2 is the result of two operations"));
}

TEST(ProgramCodecTest, HostileCollectivesAreRefused) {
  // Of the allreduce.
  const auto error = [](auto&& change) {
    capnp::MallocMessageBuilder message;
    auto builder = message.initRoot<wire::Program>();
    WriteProgram(builder, Everything());
    change(builder.getOps()[5].getCollective());
    return Message(ReadProgram(builder.asReader(), 4).status());
  };
  EXPECT_EQ(error([](auto) {}), "");
  EXPECT_THAT(error([](auto op) { op.setKind(255); }), HasSubstr("unknown kind 255"));
  EXPECT_THAT(error([](auto op) { op.setKind(static_cast<uint8_t>(OperationKind::kBarrier)); }),
              HasSubstr("a program has no such operation"));
  EXPECT_THAT(error([](auto op) { op.setReduction(5); }), HasSubstr("unknown reduction 5"));
  EXPECT_THAT(error([](auto op) { op.setAxis("tp"); }), HasSubstr("has no such axis"));
  EXPECT_THAT(error([](auto op) { op.setSource(-3); }), HasSubstr("there is no value -3"));
  EXPECT_THAT(error([](auto op) { op.setTarget(0); }), HasSubstr("the result of two operations"));
  EXPECT_THAT(error([](auto op) {
                op.setKind(static_cast<uint8_t>(OperationKind::kBroadcast));
                op.setRoot(-1);
              }),
              HasSubstr("the coordinates 0 to 1, and the root is -1"));
  EXPECT_THAT(error([](auto op) {
                op.setKind(static_cast<uint8_t>(OperationKind::kAllToAll));
                op.setDim(1 << 30);
              }),
              HasSubstr("shards dimension 1073741824"));
  EXPECT_THAT(error([](auto op) { op.setKind(static_cast<uint8_t>(OperationKind::kAllGather)); }),
              AllOf(HasSubstr("allgather along x: it makes float32[64, 64] on"),
                    HasSubstr("and its result is float32[32, 64] on")));
}

}  // namespace
}  // namespace lockstep::plan
