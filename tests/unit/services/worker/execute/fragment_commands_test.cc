// Calls of fragments, as one worker executes them; what they compute is in //tests/integration.
#include "services/worker/execute/fragment_commands.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/fragment/call_codec.h"
#include "tests/support/files.h"
#include "tests/unit/runtime/fragment/fake_compiler.h"
#include "tests/unit/services/worker/execute/executor_under_test.h"

namespace lockstep::worker {
namespace {

using fragment::Combine;
using fragment::FakeCompiler;
using fragment::Split;
using testing::HasSubstr;

class FragmentCommandsTest : public ExecutorTest {
 protected:
  static constexpr RegisterId kNumbers{3, 1};
  static constexpr RegisterId kResult{4, 1};

  // As if it had been compiled for the session.
  void Grant() {
    fragment::Compiled compiled;
    compiled.signature = {"sum",
                          {{{DType::kInt64, {}, true}}, {{DType::kFloat64, {fragment::kOpen}}}},
                          {{{DType::kFloat64, {fragment::kOpen}}, true}}};
    const std::string bytes = support::ReadFile(FakeCompiler::File("test_object.so"));
    const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
    compiled.object.assign(begin, begin + bytes.size());
    auto object = LoadedObject::Load(compiled);
    ASSERT_TRUE(object.ok()) << object.status();
    SessionState& session = *executor_->sessions().Find(kSession);
    ASSERT_TRUE(session.fragments().Grant(kKey, "f.mlir").ok());
    ASSERT_TRUE(session.FinishFragment(kKey, *object).ok());
  }
  // Of this rank, in a register: of four that the world has.
  void MakeNumbers(const Shape& shape = {2}) {
    auto tensor = tensor::Tensor::Empty(*arena_, DType::kFloat64, shape);
    ASSERT_TRUE(tensor.ok());
    for (int64_t i = 0; i < tensor->NumElements(); ++i) tensor->data_as<double>()[i] = 1.5;
    ASSERT_TRUE(executor_->sessions().Find(kSession)->Write(kNumbers, *tensor).ok());
  }
  static fragment::CallParts SumOfRows() {
    return {{{DType::kInt64, {}, Split::kNone}, {DType::kFloat64, {4}, Split::kRows}},
            {{Combine::kAdd, Shape{1}}}};
  }
  void Call(const fragment::CallParts& parts, SessionId session = kSession, uint32_t number = 0) {
    const std::string call = fragment::EncodeCall(parts);
    Run(
        [&](auto command) {
          auto run = command.initRunFragment();
          run.setNumber(number);
          auto made = run.initCall();
          made.initFragment().setHigh(kKey.high);
          made.getFragment().setLow(kKey.low);
          made.setCall({reinterpret_cast<const kj::byte*>(call.data()), call.size()});
          auto arguments = run.initArguments(2);
          arguments[0].setInt64(0);
          arguments[1].setRegister(kNumbers.Packed());
          run.initResults(1).set(0, kResult.Packed());
        },
        /*of_controller=*/false, session);
  }

  void CallAgain(uint32_t number) {
    Run([&](auto command) {
      auto run = command.initRunFragment();
      run.setNumber(number);
      auto arguments = run.initArguments(2);
      arguments[0].setInt64(0);
      arguments[1].setRegister(kNumbers.Packed());
      run.initResults(1).set(0, kResult.Packed());
    });
  }

  static constexpr fragment::ObjectKey kKey{1, 2};
};

TEST_F(FragmentCommandsTest, AResultHasItsValueAndItsLayout) {
  OpenSession();
  Grant();
  MakeNumbers();
  Call(SumOfRows());
  for (int i = 0; i < 3; ++i) CallAgain(0);
  EXPECT_EQ(Failure(), OkStatus());
  const registers::RegisterFile& registers = executor_->sessions().Find(kSession)->registers();
  const auto value = registers.Read(kResult);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ((*value)->As<tensor::Tensor>()->data_as<double>()[0], 3.0);
  ASSERT_NE(registers.LayoutOf(kResult), nullptr);
  EXPECT_EQ(registers.LayoutOf(kResult)->placements()[0],
            plan::Placement::Partial(Reduction::kSum));
  EXPECT_EQ(live(), 2u) << "numbers and result";
}

TEST_F(FragmentCommandsTest, KnowingAKeyIsNoAuthority) {
  OpenSession();
  Grant();
  constexpr SessionId kOther{6};
  OpenSession(getpid(), kOther);
  Call(SumOfRows(), kOther);
  EXPECT_EQ(Failure().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(Failure()), HasSubstr("was not compiled in this session"));
}

TEST_F(FragmentCommandsTest, CallsAreNumberedByClientAndWorkerAlike) {
  OpenSession();
  Grant();
  MakeNumbers();
  Call(SumOfRows());
  CallAgain(1);
  EXPECT_EQ(Failure().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(Failure()), HasSubstr("no call of a fragment has the number 1"));
}

TEST_F(FragmentCommandsTest, ACallThatTakesAnotherNumberIsRefused) {
  OpenSession();
  Grant();
  MakeNumbers();
  Call(SumOfRows(), kSession, 5);
  EXPECT_EQ(Failure().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(Failure()), HasSubstr("has the number 0 in this session, and 5 is given"));
}

// A reset forgets it, on both sides.
TEST_F(FragmentCommandsTest, AResetBeginsToCountAnew) {
  OpenSession();
  Grant();
  MakeNumbers();
  Call(SumOfRows());
  SessionState& session = *executor_->sessions().Find(kSession);
  EXPECT_TRUE(session.fragments().FindCall(0).ok());
  Run([](auto command) { command.initReset().setGeneration(1); }, /*of_controller=*/true);
  EXPECT_FALSE(session.fragments().FindCall(0).ok());
}

TEST_F(FragmentCommandsTest, AClientGrantsNothing) {
  OpenSession();
  Run([](auto command) { command.initLoadFragment().setName("f.mlir"); });
  EXPECT_EQ(Failure().code(), StatusCode::kPermissionDenied);
}

TEST_F(FragmentCommandsTest, AResetForgetsGrants) {
  OpenSession();
  Grant();
  Run([](auto command) { command.initReset().setGeneration(1); }, /*of_controller=*/true);
  SessionState& session = *executor_->sessions().Find(kSession);
  EXPECT_EQ(session.generation(), Generation(1));
  EXPECT_FALSE(session.fragments().Find(kKey).ok());
}

TEST_F(FragmentCommandsTest, APartOfAnotherSizeIsRefused) {
  OpenSession();
  Grant();
  MakeNumbers({3});
  Call(SumOfRows());
  EXPECT_EQ(Failure().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(Failure()), HasSubstr("this rank's part is float64[2], and register"));
}

TEST_F(FragmentCommandsTest, ATensorThatIsKnownToLieOtherwiseIsRefused) {
  OpenSession();
  Grant();
  MakeNumbers();
  const auto layout = std::make_shared<const plan::Layout>(*plan::Layout::Make(
      {2}, DType::kFloat64, *plan::Mesh::Line({0, 1}), {plan::Placement::Replicate()}));
  EXPECT_TRUE(executor_->sessions().Find(kSession)->SetLayout(kNumbers, layout).ok());
  Call(SumOfRows());
  EXPECT_EQ(Failure().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(Failure()), HasSubstr("is known to be"));
}

TEST_F(FragmentCommandsTest, WhatIsNoCallOfItIsRefused) {
  OpenSession();
  Grant();
  MakeNumbers();
  fragment::CallParts call = SumOfRows();
  call.outputs.clear();
  Call(call);
  EXPECT_EQ(Failure().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(Failure()), HasSubstr("has 1 result"));
}

}  // namespace
}  // namespace lockstep::worker
