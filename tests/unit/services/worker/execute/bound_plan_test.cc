// What a bound plan holds on one rank; what plans do together is in //tests/integration.
#include "services/worker/execute/bound_plan.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/plan/layout.h"
#include "runtime/plan/program.h"
#include "runtime/tensor/storage.h"
#include "tests/unit/services/worker/fake_communicator.h"

namespace lockstep::worker {
namespace {

using plan::Layout;
using plan::Placement;
using testing::HasSubstr;

// Writes 3 to its second argument, a float32[4].
class WritesThree final : public module::Function {
 public:
  const std::string& name() const override { return name_; }
  bool MayWriteTo(size_t argument) const override { return argument == 1; }
  Status Call(const module::CallContext&, absl::Span<const registers::Value> arguments,
              registers::Value*) override {
    arguments[1].As<tensor::Tensor>()->data_as<float>()[2] = 3;
    return OkStatus();
  }

 private:
  const std::string name_ = "three";
};

// The only rank of a world; a program that gives its input "x" to a function, and its result out.
class BoundPlanTest : public testing::Test {
 protected:
  static constexpr RegisterId kInput{1, 1};
  static constexpr RegisterId kFunction{2, 1};
  static constexpr RegisterId kOutput{3, 1};
  static constexpr RegisterId kOther{4, 1};

  BoundPlanTest() {
    EXPECT_EQ(session_->Write(kFunction,
                              std::shared_ptr<registers::Object>(std::make_shared<WritesThree>())),
              OkStatus());
  }

  static Layout LayoutOf(Placement placement) {
    return *Layout::Make({4}, DType::kFloat32, *plan::Mesh::Line({0}), {placement});
  }
  StatusOr<std::shared_ptr<BoundPlan>> Bind() {
    plan::ProgramBuilder program;
    const plan::ValueId x = program.Input("x", whole_);
    const plan::ValueId y = program.Make(whole_);
    program.Call("three", {plan::Read(x), plan::Write(y)});
    program.Output("y", y);
    return Bind(program, {kInput}, {kOutput});
  }
  StatusOr<std::shared_ptr<BoundPlan>> Bind(const plan::ProgramBuilder& program,
                                            const std::vector<RegisterId>& inputs,
                                            const std::vector<RegisterId>& outputs) {
    capnp::MallocMessageBuilder message;
    auto binding = message.initRoot<wire::Binding>();
    binding.initFunctions(1).set(0, kFunction.Packed());
    const auto write = [](auto list, const std::vector<RegisterId>& ids) {
      for (unsigned i = 0; i < list.size(); ++i) list.set(i, ids[i].Packed());
    };
    write(binding.initInputs(static_cast<unsigned>(inputs.size())), inputs);
    write(binding.initOutputs(static_cast<unsigned>(outputs.size())), outputs);
    LOCKSTEP_ASSIGN_OR_RETURN(
        std::shared_ptr<const PreparedProgram> prepared,
        PrepareProgram(plan::Encode(*program.Build()), {0, 1, plan::Topology({0})}));
    return BoundPlan::Bind(context_, std::move(prepared), binding.asReader());
  }
  Status Execute(BoundPlan& plan) {
    const auto call = [this](BoundSteps::Call& made, registers::Value* result) {
      return made.function->Call(places_, made.arguments, result);
    };
    return plan.Execute({context_, call, session_, nullptr, nullptr, nullptr});
  }
  // Puts a new tensor into the input's register; tells when its memory is free.
  std::weak_ptr<tensor::Storage> WriteInput(registers::LayoutPtr layout = nullptr) {
    tensor::Tensor tensor = *tensor::Tensor::Empty(*allocator_, DType::kFloat32, {4});
    std::weak_ptr<tensor::Storage> storage = tensor.storage();
    EXPECT_EQ(session_->Write(kInput, std::move(tensor), std::move(layout)), OkStatus());
    return storage;
  }

  // Puts two tensors of one piece of memory into kInput and kOther.
  void WriteInputsOfOnePiece(size_t second_begins) {
    tensor::Tensor piece = *tensor::Tensor::Empty(*allocator_, DType::kFloat32, {8});
    const auto at = [&](size_t byte) {
      return *tensor::Tensor::FromStorage(piece.storage(), byte, DType::kFloat32, {4});
    };
    EXPECT_EQ(session_->Write(kInput, at(0)), OkStatus());
    EXPECT_EQ(session_->Write(kOther, at(second_begins)), OkStatus());
  }

  const Layout whole_ = LayoutOf(Placement::Replicate());
  std::shared_ptr<tensor::Allocator> allocator_ = tensor::NewHeapAllocator();
  const std::unique_ptr<tensor::Processor> host_ = tensor::NewHostProcessor(*allocator_);
  registers::RegisterTotals totals_;
  registers::RegisterFile registers_{&totals_};
  FakeCommunicator::Log log_;
  FakeCommunicator world_{log_};
  const std::shared_ptr<SessionState> session_ =
      std::make_shared<SessionState>(control::SessionRecord{.id = SessionId(7)}, &registers_);
  control::ActivityPage activity_;
  const WorldLinks links_{&world_};
  module::CallContext places_ = [this] {
    module::CallContext places;
    places.host = host_.get();
    return places;
  }();
  const CollectiveContext context_{
      0, 1, links_, places_, *session_, activity_, Deadline::After(std::chrono::seconds(20))};
};

// What the client has freed is free: it counts to nobody.
TEST_F(BoundPlanTest, AnInputsMemoryGoesWithItsRegister) {
  const auto first = WriteInput();
  const std::shared_ptr<BoundPlan> plan = *Bind();
  ASSERT_EQ(Execute(*plan), OkStatus());
  EXPECT_FALSE(first.expired());
  const auto second = WriteInput();
  EXPECT_TRUE(first.expired()) << "another tensor is in its register";
  ASSERT_EQ(Execute(*plan), OkStatus());
  EXPECT_FALSE(second.expired());
  ASSERT_EQ(session_->Kill(kInput), OkStatus());
  EXPECT_TRUE(second.expired());
  EXPECT_THAT(Message(Execute(*plan)), HasSubstr("input \"x\": register r1.1 was freed"));
}

TEST_F(BoundPlanTest, AnInputsMemoryGoesWithTheClientThatNamedIt) {
  const auto input = WriteInput();
  const std::shared_ptr<BoundPlan> plan = *Bind();
  session_->Adopt(control::SessionRecord{.id = SessionId(7)});
  EXPECT_TRUE(input.expired());
  EXPECT_FALSE(Execute(*plan).ok());
}

TEST_F(BoundPlanTest, OutputsCarryTheLayoutOfTheProgram) {
  WriteInput();
  const std::shared_ptr<BoundPlan> plan = *Bind();
  ASSERT_NE(registers_.LayoutOf(kOutput), nullptr);
  EXPECT_EQ(*registers_.LayoutOf(kOutput), whole_);
  // A function may have written to it since; the plan writes it anew.
  session_->ForgetLayout(kOutput);
  ASSERT_EQ(Execute(*plan), OkStatus());
  ASSERT_NE(registers_.LayoutOf(kOutput), nullptr);
  EXPECT_EQ(*registers_.LayoutOf(kOutput), whole_);
  // Taken for another tensor by the client.
  const auto declared = std::make_shared<const Layout>(LayoutOf(Placement::Shard(0)));
  ASSERT_EQ(session_->SetLayout(kOutput, declared), OkStatus());
  ASSERT_EQ(Execute(*plan), OkStatus());
  EXPECT_EQ(registers_.LayoutOf(kOutput), declared);
}

TEST_F(BoundPlanTest, AnInputThatIsKnownToLieOtherwiseIsRefused) {
  const Layout shard = LayoutOf(Placement::Shard(0));
  WriteInput(std::make_shared<const Layout>(shard));
  const Status status = Bind().status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("is known to be " + shard.ToString()));
  WriteInput(std::make_shared<const Layout>(whole_));
  EXPECT_EQ(Bind().status(), OkStatus());
}

TEST_F(BoundPlanTest, AnInputThatIsDeclaredToLieOtherwiseLaterIsRefused) {
  WriteInput(std::make_shared<const Layout>(whole_));
  const std::shared_ptr<BoundPlan> plan = *Bind();
  ASSERT_EQ(Execute(*plan), OkStatus());
  const Layout shard = LayoutOf(Placement::Shard(0));
  ASSERT_EQ(session_->SetLayout(kInput, std::make_shared<const Layout>(shard)), OkStatus());
  EXPECT_THAT(Message(Execute(*plan)), HasSubstr("is known to be " + shard.ToString()));
  ASSERT_EQ(session_->SetLayout(kInput, std::make_shared<const Layout>(whole_)), OkStatus());
  EXPECT_EQ(Execute(*plan), OkStatus());
}

// As two outputs of another plan are: both lie in its memory.
TEST_F(BoundPlanTest, InputsSideBySideInOnePieceOfMemoryAreApart) {
  plan::ProgramBuilder program;
  const plan::ValueId x = program.Input("x", whole_);
  const plan::ValueId y = program.Input("y", whole_);
  program.Call("three", {plan::Read(x), plan::Write(y)});
  WriteInputsOfOnePiece(4 * sizeof(float));
  StatusOr<std::shared_ptr<BoundPlan>> plan = Bind(program, {kInput, kOther}, {});
  ASSERT_EQ(plan.status(), OkStatus());
  EXPECT_EQ(Execute(**plan), OkStatus());
  for (const size_t begin : {size_t{0}, 3 * sizeof(float)}) {
    WriteInputsOfOnePiece(begin);
    EXPECT_THAT(Message(Execute(**plan)),
                HasSubstr("inputs \"x\" and \"y\" share memory (registers r1.1 and r4.1)"));
    EXPECT_THAT(Message(Bind(program, {kOther, kInput}, {}).status()),
                HasSubstr("inputs \"x\" and \"y\" share memory (registers r4.1 and r1.1)"));
  }
  plan::ProgramBuilder reads;
  const plan::ValueId z = reads.Make(whole_);
  reads.Call("three", {plan::Read(reads.Input("x", whole_)), plan::Write(z)});
  (void)reads.Input("y", whole_);
  EXPECT_EQ(Bind(reads, {kInput, kOther}, {}).status(), OkStatus()) << "neither is written";
}

TEST_F(BoundPlanTest, AnInputInThePlansOwnMemoryIsRefused) {
  WriteInput();
  const std::shared_ptr<BoundPlan> plan = *Bind();
  ASSERT_EQ(Execute(*plan), OkStatus());
  ASSERT_EQ(session_->Write(kInput, registers::Value(**registers_.Read(kOutput))), OkStatus());
  EXPECT_THAT(Message(Execute(*plan)), HasSubstr("input \"x\" (register r1.1) lies in the plan's "
                                                 "own memory"));
  WriteInput();
  EXPECT_EQ(Execute(*plan), OkStatus());
}

TEST_F(BoundPlanTest, WhatWasPreparedForAPlanCountsAmongTheSessionsBytes) {
  WriteInput();
  plan::ProgramBuilder program;
  const plan::ValueId x = program.Input("x", whole_);
  const plan::ValueId y = program.Make(whole_);
  constexpr size_t kCalls = 1000;
  for (size_t i = 0; i < kCalls; ++i) program.Call("three", {plan::Read(x), plan::Write(y)});
  program.Output("y", y);
  const std::shared_ptr<BoundPlan> plan = *Bind(program, {kInput}, {kOutput});
  EXPECT_GT(plan->HeldBytes(), kCalls * sizeof(plan::ProgramStep));
}

// Once, whoever holds it. Else a session could hold any number of plans' memories, one small output
// of each.
TEST_F(BoundPlanTest, APlansMemoryIsCountedOnce) {
  constexpr int64_t kElements = 1 << 20;
  constexpr size_t kBytes = size_t{kElements} * sizeof(float);
  plan::ProgramBuilder program;
  const plan::ValueId between = program.Make(*Layout::Make(
      {kElements}, DType::kFloat32, *plan::Mesh::Line({0}), {Placement::Replicate()}));
  const plan::ValueId y = program.Make(whole_);
  program.Call("three", {plan::Read(program.Input("x", whole_)), plan::Write(between)});
  program.Call("three", {plan::Read(between), plan::Write(y)});
  program.Output("y", y);
  WriteInput();
  StatusOr<std::shared_ptr<BoundPlan>> plan = Bind(program, {kInput}, {kOutput});
  ASSERT_EQ(plan.status(), OkStatus());
  EXPECT_GE((*plan)->BytesApart(), kBytes);
  EXPECT_LT((*plan)->HeldBytes(), kBytes);
  const size_t held = registers_.held_bytes();
  EXPECT_GT(held, kBytes);
  EXPECT_LT(held, 2 * kBytes);
  plan->reset();
  EXPECT_EQ(registers_.held_bytes(), held) << "its output keeps all of it";
  const Status refused = registers_.CheckRoom(std::numeric_limits<size_t>::max());
  EXPECT_THAT(Message(refused), HasSubstr("of it in plans, whose memory"));
  // As long as any tensor is there, whatever register it is in.
  ASSERT_EQ(session_->Write(kOther, registers::Value(**registers_.Read(kOutput))), OkStatus());
  ASSERT_EQ(session_->Kill(kOutput), OkStatus());
  EXPECT_GT(registers_.held_bytes(), kBytes);
  ASSERT_EQ(session_->Kill(kOther), OkStatus());
  EXPECT_LT(registers_.held_bytes(), kBytes);
}

TEST_F(BoundPlanTest, APlanWithoutOutputsThatAreKeptLeavesNothingCounted) {
  WriteInput();
  StatusOr<std::shared_ptr<BoundPlan>> plan = Bind();
  ASSERT_EQ(plan.status(), OkStatus());
  EXPECT_GT(registers_.lasting_bytes()->load(), 0u);
  ASSERT_EQ(session_->Kill(kOutput), OkStatus());
  plan->reset();
  EXPECT_EQ(registers_.lasting_bytes()->load(), 0u);
}

// Goes on when this rank has left its teams.
class HoldsUntilLeft final : public module::Function {
 public:
  explicit HoldsUntilLeft(const FakeCommunicator::Log& log) : log_(log) {}
  const std::string& name() const override { return name_; }
  bool MayWriteTo(size_t) const override { return true; }
  Status Call(const module::CallContext&, absl::Span<const registers::Value>,
              registers::Value*) override {
    const Deadline deadline = Deadline::After(std::chrono::seconds(20));
    while (log_.leaves == 0 && !deadline.Expired()) std::this_thread::yield();
    return OkStatus();
  }

 private:
  const FakeCommunicator::Log& log_;
  const std::string name_ = "holds";
};

// Rank 0 of two, whose plans have two lanes.
class BoundPlanLanesTest : public BoundPlanTest {
 protected:
  BoundPlanLanesTest() { log_.size = 2; }

  const CollectiveContext two_{0,
                               2,
                               links_,
                               places_,
                               *session_,
                               activity_,
                               Deadline::After(std::chrono::seconds(20)),
                               std::chrono::seconds(20)};
  CommunicationLane lane_;
};

TEST_F(BoundPlanLanesTest, AnExchangeThatFailsTellsPeersBeforeTheFunctionBesideItReturns) {
  ASSERT_EQ(session_->Write(kFunction, std::shared_ptr<registers::Object>(
                                           std::make_shared<HoldsUntilLeft>(log_))),
            OkStatus());
  const Layout halves =
      *Layout::Make({8}, DType::kFloat32, *plan::Mesh::Line({0, 1}), {Placement::Shard(0)});
  plan::ProgramBuilder program;
  const plan::ValueId x = program.Input("x", halves);
  const plan::ValueId y = program.Input("y", whole_);
  program.Output("whole", program.Reshard(x, *halves.With({Placement::Replicate()})));
  program.Call("holds", {plan::Update(y)});
  capnp::MallocMessageBuilder message;
  auto binding = message.initRoot<wire::Binding>();
  binding.initFunctions(1).set(0, kFunction.Packed());
  auto inputs = binding.initInputs(2);
  inputs.set(0, kInput.Packed());
  inputs.set(1, kOther.Packed());
  binding.initOutputs(1).set(0, kOutput.Packed());
  WriteInput();
  ASSERT_EQ(session_->Write(kOther, *tensor::Tensor::Empty(*allocator_, DType::kFloat32, {4})),
            OkStatus());
  const auto prepared = *PrepareProgram(plan::Encode(*program.Build()),
                                        {0, 2, plan::Topology({0, 0}), /*lanes_overlap=*/true});
  StatusOr<std::shared_ptr<BoundPlan>> plan = BoundPlan::Bind(two_, prepared, binding.asReader());
  ASSERT_EQ(plan.status(), OkStatus());
  log_.outcome = InvalidArgument("no such thing");
  const auto call = [this](BoundSteps::Call& made, registers::Value* result) {
    return made.function->Call(places_, made.arguments, result);
  };
  const Status status = (*plan)->Execute({two_, call, session_, nullptr, nullptr, &lane_});
  EXPECT_GT(log_.leaves, 0) << "the function was to return first";
  EXPECT_THAT(Message(status), HasSubstr("no such thing"));
}

// A key gives no right to a fragment, whatever other sessions have.
TEST_F(BoundPlanTest, AFragmentThatWasNotGrantedIsNotFound) {
  plan::ProgramBuilder program;
  const plan::ValueId y = program.Make(whole_);
  program.Call("f", {plan::Read(program.Input("x", whole_)), plan::Write(y)}, {"train.cc", 12});
  capnp::MallocMessageBuilder message;
  auto binding = message.initRoot<wire::Binding>();
  binding.initFunctions(1);
  auto fragment = binding.initFragments(1)[0];
  fragment.setFunction(0);
  fragment.setHigh(1);
  fragment.setLow(2);
  binding.initInputs(1).set(0, kInput.Packed());
  WriteInput();
  const auto prepared =
      *PrepareProgram(plan::Encode(*program.Build()), {0, 1, plan::Topology({0})});
  const Status status = BoundPlan::Bind(context_, prepared, binding.asReader()).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status),
              HasSubstr("train.cc:12: f: fragment 00000000000000010000000000000002 was not "
                        "compiled in this session"));
  // A function of a module is called by its register.
  struct Nothing : module::Function {
    const std::string name_ = "nothing";
    const std::string& name() const override { return name_; }
    Status Call(const module::CallContext&, absl::Span<const registers::Value>,
                registers::Value*) override {
      return OkStatus();
    }
  };
  ASSERT_EQ(session_->fragments().GrantFunction({1, 2}, "nothing", std::make_shared<Nothing>()),
            OkStatus());
  EXPECT_THAT(Message(BoundPlan::Bind(context_, prepared, binding.asReader()).status()),
              HasSubstr("it is a function of a module"));
}

TEST(InputHoldersTest, ThoseThatAreGoneAreForgotten) {
  struct Counting : InputHolder {
    void LetGo(uint32_t register_index) override { last = register_index, ++count; }
    uint32_t last = 0;
    int count = 0;
  };
  InputHolders holders;
  const auto stays = std::make_shared<Counting>();
  holders.Add(5, stays);
  for (uint32_t i = 0; i < 1000; ++i) holders.Add(1000 + i, std::make_shared<Counting>());
  EXPECT_LT(holders.size(), 200u);
  holders.LetGo(4);
  EXPECT_EQ(stays->count, 0);
  holders.LetGo(5);
  EXPECT_EQ(stays->count, 1);
  EXPECT_EQ(stays->last, 5u);
}

}  // namespace
}  // namespace lockstep::worker
