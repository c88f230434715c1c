// A program file to try plans with, and how text is read as one.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tools/cli/plan/plan_file.h"

namespace lockstep::cli::plan_file {

inline constexpr char kPlan[] = R"(plan:
  nodes: [0, 0, 1, 1]
  meshes:
    all: {ranks: 0-3}
    grid: {axes: {x: 2, y: 2}, ranks: [3, 1, 2, 0]}
  layouts:
    rows: {shape: [64, 64], dtype: f32, mesh: all, placements: [shard(0)]}
    whole: {shape: [64, 64], mesh: all, placements: [R]}
    tiles: {shape: [64, 64], dtype: f32, mesh: grid, placements: [shard(0), shard(1)]}
  inputs: {x: rows}
  steps:
    - {reshard: x, to: whole, as: all_of_it}
    - {make: whole, as: scratch}
    - {call: scale, args: [$all_of_it, write $scratch, 0.5, [2, 3], i8, text:word]}
    - {call: f, args: [update $scratch], result: whole, as: y}
    - {reshard: y, to: tiles, as: z}
  outputs: [z]
)";

// Its fragments are files beside it.
inline constexpr char kFragments[] = R"(plan:
  meshes: {all: {ranks: 0-3}, two: {ranks: [1, 3]}}
  layouts:
    on_one: {shape: [1024], dtype: f64, mesh: all, placements: [shard(0)]}
    whole: {shape: [1], dtype: f64, mesh: all, placements: [replicate]}
  inputs: {x: on_one}
  steps:
    - {fragment: scale.mlir, args: [rows $x, 2], results: [{as: y, combine: rows, shape: [1024],
                                                            dtype: f64}]}
    - {fragment: sum.mlir, args: [placed $y], results: [{as: s, combine: add, shape: [1],
                                                         dtype: f64}]}
    - {reshard: s, to: whole, as: total}
    - {fragment: sum.mlir, args: [$y], results: [{as: t, shape: [1], dtype: f64}]}
    - {fragment: sum.mlir, args: [$y], results: [{as: u, shape: [1], dtype: f64}], on: two}
  outputs: [total, t, u]
)";

// As the file "layers.yaml".
inline StatusOr<PlanFile> ReadText(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/layers.yaml";
  std::ofstream(path) << text;
  for (const char* fragment : {"scale.mlir", "sum.mlir"}) {
    std::ofstream(::testing::TempDir() + "/" + fragment) << "sum";
  }
  return ReadPlanFile(path);
}

}  // namespace lockstep::cli::plan_file
