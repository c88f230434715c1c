// What tests of programs have in common: layouts of a matrix, lowering, and steps as text.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/operations.h"
#include "runtime/base/shape.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/mesh.h"
#include "runtime/plan/passes/program_lowering.h"
#include "runtime/plan/program.h"
#include "runtime/plan/steps/program_steps.h"

namespace lockstep::plan::testing {

inline Mesh LineOf(std::vector<Rank> ranks) { return *Mesh::Line(std::move(ranks)); }
inline Layout LayoutOn(const Mesh& mesh, Placement placement, const Shape& shape = {64, 64},
                       DType dtype = DType::kFloat32) {
  return *Layout::Make(shape, dtype, mesh, {placement});
}

inline const Layout kRows = LayoutOn(LineOf({0, 1}), Placement::Shard(0));
inline const Layout kColumns = LayoutOn(LineOf({0, 1}), Placement::Shard(1));
inline const Layout kWhole = LayoutOn(LineOf({0, 1}), Placement::Replicate());
inline const Layout kOthers = LayoutOn(LineOf({2, 3}), Placement::Shard(0));

// Of a program that is right.
inline LoweredProgram Lower(const ProgramBuilder& builder) {
  const StatusOr<Program> program = builder.Build();
  EXPECT_TRUE(program.ok()) << program.status();
  return *LowerProgram(std::make_shared<const Program>(*program), Topology(), CostModel());
}

// "f", "allgather", ..., with " after N" where a step waits for one of the other lane.
inline std::vector<std::string> StepsOf(const ProgramSteps& steps, const Program& program) {
  std::vector<std::string> texts;
  for (const ProgramStep& step : steps.steps) {
    std::string text = "copy";
    if (const auto* call = std::get_if<CallStep>(&step.what)) {
      const auto& op = std::get<CallOp>(program.ops()[call->op].what);
      text = program.functions()[static_cast<size_t>(op.function)];
      EXPECT_EQ(step.lane, Lane::kCompute);
    } else if (const auto* collective = std::get_if<CollectiveStep>(&step.what)) {
      text = FactsOf(collective->kind).name;
      EXPECT_EQ(step.lane, Lane::kCommunication);
    }
    if (step.waits_for >= 0) text += " after " + std::to_string(step.waits_for);
    texts.push_back(text);
  }
  return texts;
}

}  // namespace lockstep::plan::testing
