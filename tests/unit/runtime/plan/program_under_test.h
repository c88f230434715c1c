// What tests of programs have in common: layouts of a matrix, and lowering.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/shape.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/mesh.h"
#include "runtime/plan/program.h"
#include "runtime/plan/program_lowering.h"

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

}  // namespace lockstep::plan::testing
