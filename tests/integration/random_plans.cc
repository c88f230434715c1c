#include "tests/integration/random_plans.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/layout.h"
#include "runtime/plan/program.h"
#include "tests/support/random_layouts.h"
#include "tests/support/random_program.h"

namespace lockstep::testing {
namespace {

using plan::Box;
using plan::Layout;
using support::RandomProgram;

HostTensor Numbers(const Shape& shape) {
  std::vector<int32_t> numbers;
  for (int32_t i = 0; i < shape.NumElements(); ++i) numbers.push_back(i);
  return HostTensor::Of<int32_t>(shape, numbers);
}

// What a rank that holds this box of Numbers(shape) has.
HostTensor TileOfNumbers(const Shape& shape, const Box& box) {
  std::vector<int32_t> numbers;
  const Shape strides = plan::RowMajorStrides(shape);
  for (int64_t i = 0; i < box.NumElements(); ++i) {
    int64_t rest = i;
    int64_t number = 0;
    for (int d = box.ndim() - 1; d >= 0; --d) {
      number += (box.begin[d] + rest % box.extents[d]) * strides[d];
      rest /= box.extents[d];
    }
    numbers.push_back(static_cast<int32_t>(number));
  }
  return HostTensor::Of<int32_t>(box.extents, numbers);
}

void ExpectTiles(Session& session, const DRef& moved, const Layout& layout) {
  if (!layout.PartialAxes().empty()) return;
  for (int index = 0; index < layout.mesh().size(); ++index) {
    const Rank rank = layout.mesh().RankAt(index);
    const StatusOr<Value> tile = session.DebugGet(moved, rank);
    ASSERT_TRUE(tile.ok()) << tile.status();
    ASSERT_EQ(*tile, Value(TileOfNumbers(layout.shape(), layout.TileAt(index)))) << "rank " << rank;
  }
}

void ExpectMoved(Session& session, const Layout& from, const Layout& to) {
  const HostTensor tensor = Numbers(from.shape());
  const StatusOr<DRef> placed = session.Place(tensor, from);
  ASSERT_TRUE(placed.ok()) << placed.status();
  const StatusOr<DRef> moved = session.Reshard(*placed, to);
  ASSERT_TRUE(moved.ok()) << moved.status();
  ExpectTiles(session, *moved, to);
  for (const DRef& ref : {*moved, *placed}) {
    const StatusOr<HostTensor> collected = session.Collect(ref);
    ASSERT_TRUE(collected.ok()) << collected.status();
    ASSERT_EQ(*collected, tensor) << (ref.id() == placed->id() ? "the source has changed" : "");
  }
}

HostTensor ToHost(const RandomProgram::Tensor& tensor) {
  return HostTensor::Of<int32_t>(tensor.shape, tensor.elements);
}

void ExpectExecuted(Session& session, RandomProgram& random) {
  const StatusOr<plan::Program> program = random.Build();
  ASSERT_TRUE(program.ok()) << program.status();
  PlanRegisters registers;
  for (const plan::ValueId id : program->inputs()) {
    const std::string& name = program->value(id).name;
    const auto placed = session.Place(ToHost(random.inputs().at(name)), program->value(id).layout);
    ASSERT_TRUE(placed.ok()) << placed.status();
    registers.inputs.emplace(name, *placed);
  }
  StatusOr<BoundPlan> plan = session.Bind(*program, registers);
  ASSERT_TRUE(plan.ok()) << plan.status();
  // On GPUs, where inputs take turns between the memory of before and other: so often that what was
  // captured is launched.
  const int rounds = std::getenv("LOCKSTEP_DEVICE") == nullptr ? 2 : 6;
  for (int round = 0; round < rounds; ++round) {
    // What it has written to its inputs is overwritten.
    for (const auto& [name, tensor] : random.inputs()) {
      ASSERT_EQ(session.DebugSet(registers.inputs.at(name), 0, ToHost(tensor)), OkStatus());
    }
    ASSERT_EQ(plan->Execute(), OkStatus());
    for (const auto& [name, tensor] : random.outputs()) {
      const StatusOr<DRef> output = plan->Output(name);
      ASSERT_TRUE(output.ok()) << output.status();
      const StatusOr<Value> found = session.DebugGet(*output, 0);
      ASSERT_TRUE(found.ok()) << found.status();
      ASSERT_EQ(*found, Value(ToHost(tensor))) << name << " of execution " << round;
    }
  }
}

}  // namespace

void ExpectRandomReshards(Session& session, int world, uint32_t seed, int count) {
  support::RandomLayouts any(seed);
  constexpr Reduction kOps[] = {Reduction::kSum, Reduction::kMin, Reduction::kMax};
  for (int pair = 0; pair < count; ++pair) {
    const Shape shape = any.AnyShape(any.Below(2) == 0);
    const Reduction op = kOps[any.Below(3)];
    const Layout from = any.AnyLayout(shape, any.AnyMesh(world), op);
    const Layout to = any.AnyLayout(shape, any.AnyMesh(world), op);
    SCOPED_TRACE(::testing::Message() << "pair " << pair << ": " << from << " to " << to);
    ExpectMoved(session, from, to);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

void ExpectRandomPrograms(Session& session, int world, uint32_t seed, int count) {
  for (int i = 0; i < count; ++i) {
    RandomProgram program(seed + static_cast<uint32_t>(i), world, support::RandomCalls::kCopies);
    SCOPED_TRACE("program " + std::to_string(i));
    ExpectExecuted(session, program);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace lockstep::testing
