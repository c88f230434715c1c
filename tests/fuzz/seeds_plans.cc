// Programs: those of examples/plans, and random ones, with and without a spoil.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "runtime/plan/layout.h"
#include "runtime/plan/plan_key.h"
#include "runtime/plan/program.h"
#include "services/config/problems.h"
#include "tests/fuzz/seeds.h"
#include "tests/support/random_program.h"
#include "tools/cli/program/parse.h"

namespace lockstep::fuzz {
namespace {

void AddProgram(SeedFolder& folder, const std::string& name, const plan::Program& program) {
  const plan::EncodedProgram encoded = plan::Encode(program);
  const std::string bytes(reinterpret_cast<const char*>(encoded.bytes().data()),
                          encoded.size_bytes());
  folder.Add("plans", name, std::string(1, '\0') + bytes);
  // A step's buffer, and a buffer's place.
  const char spoils[] = "\x02\x01\x04\x01\x00\x02\x00\x00\x00\x00\x03\x02\x00\x08\x00\x00\x00";
  folder.Add("plans", name + "_spoilt", std::string(spoils, sizeof spoils - 1) + bytes);
}

// A call whose rows come and go in two chunks.
plan::Program InChunks() {
  const plan::Mesh all = *plan::Mesh::Line({0, 1, 2, 3});
  const auto lies = [&](plan::Placement placement) {
    return *plan::Layout::Make({10, 6}, DType::kFloat32, all, {std::move(placement)});
  };
  plan::ProgramBuilder builder;
  const plan::ValueId rows = builder.Input("x", lies(plan::Placement::Shard(0)));
  const plan::ValueId whole = builder.Reshard(rows, lies(plan::Placement::Replicate()));
  plan::Chunks two;
  two.count = 2;
  const plan::ValueId sums = builder.CallInChunks(
      "f", {plan::Read(whole)}, lies(plan::Placement::Partial(Reduction::kSum)), two);
  builder.Output("y", builder.Reshard(sums, lies(plan::Placement::Shard(0))));
  return *builder.Build();
}

}  // namespace

void AddPlanSeeds(SeedFolder& folder) {
  // As `bazel run` has them.
  for (const char* const name : {"gradients", "layers", "perceptron"}) {
    const std::string path = "examples/plans/" + std::string(name) + ".yaml";
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    config::Problems problems;
    const auto program = cli::program::ParseProgram(text, path, "examples/plans", problems);
    if (!program.plan.has_value() || program.plan->program == nullptr) std::abort();
    AddProgram(folder, name, *program.plan->program);
  }
  AddProgram(folder, "in_chunks", InChunks());
  for (uint32_t seed = 0; seed < 8; ++seed) {
    support::RandomProgram program(seed, seed % 2 == 0 ? 4 : 8, support::RandomCalls::kArithmetic);
    AddProgram(folder, "random_" + std::to_string(seed), *program.Build());
  }
}

}  // namespace lockstep::fuzz
