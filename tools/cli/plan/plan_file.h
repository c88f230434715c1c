// The `plan:` section of a program file: from YAML to a program that is lowered once.
//
//     plan:
//       nodes: [0, 0, 1, 1]                     # which ranks share a node; all, if it is not given
//       meshes:
//         all: {ranks: 0-3}                     # one axis, "x"
//         grid: {axes: {x: 2, y: 2}, ranks: [0, 1, 2, 3]}
//       layouts:
//         rows: {shape: [64, 64], dtype: f32, mesh: all, placements: [shard(0)]}
//         columns: {shape: [64, 64], dtype: f32, mesh: all, placements: [shard(1)]}
//         sums: {shape: [64, 16], dtype: f32, mesh: all, placements: [partial(sum)]}
//       inputs: {x: rows}
//       steps:
//         - {reshard: x, to: columns, as: y}
//         - {make: columns, as: scratch}
//         - {fragment: f.mlir, args: [rows $x], results: [{as: f, combine: rows, shape: [64, 64]}]}
//         - {call: scale, args: [$y, write $scratch, 0.5]}
//         - {call: relu, args: [$scratch], result: columns, as: z}
//         - {copy: z, as: kept}
//         - {view: z, to: sums, as: parts}
//         - {allreduce: parts, axis: x, op: sum, as: total}
//       outputs: [kept, total]
//
// A fragment's file lies beside this one. `call` may name a `module: REGISTER` that has the
// function. docs/plans.md describes it for people.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/plan/lowering/topology.h"
#include "runtime/plan/passes/program_lowering.h"
#include "runtime/plan/program.h"
#include "runtime/plan/steps/program_steps.h"
#include "services/config/problems.h"
#include "tools/cli/program/program.h"
#include "tools/cli/program/step_reader.h"

namespace lockstep::cli::plan_file {

// Reads the section from its node; its program is built, and not lowered. What is wrong is reported
// to `file`.
program::PlanSection ReadPlanSection(const YAML::Node& plan, program::FileContext& file);

struct PlanFile {
  // With its calls in chunks.
  const plan::Program& program() const { return *lowered.program; }
  // What a rank does, on workers whose lanes overlap, or do not.
  plan::ProgramSteps StepsOf(Rank rank) const {
    return plan::ExpandProgram(lowered, rank, {.lanes_overlap = lanes_overlap});
  }

  plan::LoweredProgram lowered;
  std::vector<std::string> value_names;  // by number, as in the file
  plan::Topology topology;
  std::map<std::string, std::string> modules;    // as in PlanSection
  std::map<std::string, std::string> fragments;  // the same
  std::shared_ptr<const plan::Program> written;  // as the file has it
  bool lanes_overlap = true;                     // on its workers
};

// kInvalidArgument with all problems, one a line, each with its line in the file; those of
// plan::Program::Make() and plan::LowerProgram() come alone. kNotFound: the file cannot be read.
StatusOr<PlanFile> ReadPlanFile(const std::string& path);

}  // namespace lockstep::cli::plan_file
