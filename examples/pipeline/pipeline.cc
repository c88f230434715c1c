// Two layers of a network on two halves of the workers: while the second half computes with one
// micro-batch, the first computes with the next. One plan does all of it, and the same on one
// worker checks it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "examples/support/cluster.h"
#include "examples/support/flags.h"
#include "runtime/plan/program.h"

namespace lockstep::examples::pipeline {
namespace {

using plan::Layout;
using plan::Placement;
using plan::Read;
using plan::ValueId;

struct Flags {
  ClusterFlags cluster;
  int64_t micro_batches = 8;
  int64_t tokens = 64;  // of a micro-batch
  int64_t width = 256;
  int repeat = 10;
};

// The ranks of a stage, each of which has some of the rows of a micro-batch, and all weights.
struct Stage {
  Layout rows;
  Layout weights;  // [width, 1, width]
  Layout bias;     // [width, 1]

  static StatusOr<Stage> On(std::vector<Rank> ranks, const Flags& flags) {
    LOCKSTEP_ASSIGN_OR_RETURN(const plan::Mesh mesh, plan::Mesh::Line(std::move(ranks)));
    const auto layout = [&](const Shape& shape, const Placement& placement) {
      return Layout::Make(shape, DType::kFloat32, mesh, {placement});
    };
    LOCKSTEP_ASSIGN_OR_RETURN(Layout rows,
                              layout({flags.tokens, flags.width}, Placement::Shard(0)));
    LOCKSTEP_ASSIGN_OR_RETURN(Layout weights,
                              layout({flags.width, 1, flags.width}, Placement::Replicate()));
    LOCKSTEP_ASSIGN_OR_RETURN(Layout bias, layout({flags.width, 1}, Placement::Replicate()));
    return Stage{std::move(rows), std::move(weights), std::move(bias)};
  }
};

// The same numbers for the same seed.
HostTensor Draw(const Shape& shape, double deviation, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> distribution(0, deviation);
  std::vector<float> elements(static_cast<size_t>(shape.NumElements()));
  for (float& element : elements) element = static_cast<float>(distribution(random));
  return HostTensor::Of<float>(shape, elements);
}

// Places weights and micro-batches, and binds the plan: each micro-batch goes through a layer on
// the first stage, to the second stage, and through a layer there.
StatusOr<BoundPlan> Bind(Session& session, const DRef& module, const Flags& flags,
                         const Stage& first, const Stage& second) {
  PlanRegisters registers;
  for (const char* const name : {"project_to_part", "gelu"}) {
    LOCKSTEP_ASSIGN_OR_RETURN(registers.functions[name], session.GetFunction(module, name));
  }
  plan::ProgramBuilder program;
  const auto input = [&](const std::string& name, const Layout& layout, double deviation,
                         uint64_t seed) -> StatusOr<ValueId> {
    LOCKSTEP_ASSIGN_OR_RETURN(registers.inputs[name],
                              session.Place(Draw(layout.shape(), deviation, seed), layout));
    return program.Input(name, layout);
  };
  const double keeps_size = 1 / std::sqrt(static_cast<double>(flags.width));
  LOCKSTEP_ASSIGN_OR_RETURN(const ValueId w1, input("w1", first.weights, keeps_size, 1));
  LOCKSTEP_ASSIGN_OR_RETURN(const ValueId b1, input("b1", first.bias, 0.1, 2));
  LOCKSTEP_ASSIGN_OR_RETURN(const ValueId w2, input("w2", second.weights, keeps_size, 3));
  LOCKSTEP_ASSIGN_OR_RETURN(const ValueId b2, input("b2", second.bias, 0.1, 4));
  const auto layer = [&](ValueId x, ValueId weights, ValueId bias, const Layout& rows) {
    const ValueId projected =
        program.Call("project_to_part", {Read(x), Read(weights), Read(bias)}, rows);
    return program.Call("gelu", {Read(projected)}, rows);
  };
  for (int64_t i = 0; i < flags.micro_batches; ++i) {
    const std::string number = std::to_string(i);
    LOCKSTEP_ASSIGN_OR_RETURN(const ValueId x,
                              input("x" + number, first.rows, 1, 100 + static_cast<uint64_t>(i)));
    const ValueId there = program.Reshard(layer(x, w1, b1, first.rows), second.rows);
    program.Output("y" + number, layer(there, w2, b2, second.rows));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Program built, program.Build());
  return session.Bind(built, registers);
}

// Milliseconds of one execution, after a first one that is not timed.
StatusOr<double> TimeOf(Session& session, BoundPlan& plan, int repeat) {
  LOCKSTEP_RETURN_IF_ERROR(plan.Execute());
  LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeat; ++i) LOCKSTEP_RETURN_IF_ERROR(plan.Execute());
  LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  return time.count() / repeat;
}

Status Run(const Flags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      Cluster cluster,
      Cluster::Open(flags.cluster, "examples/tensor_parallel/transformer_module.so"));
  Session& session = cluster.session();
  const int workers = session.num_workers();
  if (workers % 2 != 0) {
    return InvalidArgument("two stages need an even number of workers, these are ", workers);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef module, session.LoadModule(cluster.module_path()));
  std::vector<Rank> ranks(static_cast<size_t>(workers));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto middle = ranks.begin() + workers / 2;
  LOCKSTEP_ASSIGN_OR_RETURN(const Stage first, Stage::On({ranks.begin(), middle}, flags));
  LOCKSTEP_ASSIGN_OR_RETURN(const Stage second, Stage::On({middle, ranks.end()}, flags));
  LOCKSTEP_ASSIGN_OR_RETURN(const Stage alone, Stage::On({0}, flags));
  LOCKSTEP_ASSIGN_OR_RETURN(BoundPlan stages, Bind(session, module, flags, first, second));
  LOCKSTEP_ASSIGN_OR_RETURN(BoundPlan by_one, Bind(session, module, flags, alone, alone));

  LOCKSTEP_ASSIGN_OR_RETURN(const double stages_ms, TimeOf(session, stages, flags.repeat));
  LOCKSTEP_ASSIGN_OR_RETURN(const double by_one_ms, TimeOf(session, by_one, flags.repeat));
  for (int64_t i = 0; i < flags.micro_batches; ++i) {
    const std::string name = "y" + std::to_string(i);
    LOCKSTEP_ASSIGN_OR_RETURN(const DRef parts, stages.Output(name));
    LOCKSTEP_ASSIGN_OR_RETURN(const DRef whole, by_one.Output(name));
    LOCKSTEP_ASSIGN_OR_RETURN(const HostTensor found, session.Collect(parts));
    LOCKSTEP_ASSIGN_OR_RETURN(const HostTensor expected, session.Collect(whole));
    if (found == expected) continue;
    return Internal("micro-batch ", i, " differs from what one worker computes");
  }
  std::printf(
      "%lld micro-batches through 2 stages of %d: the same in every bit as on one worker; "
      "%.2f ms, %.2f ms on one (%.2fx)\n",
      static_cast<long long>(flags.micro_batches), workers / 2, stages_ms, by_one_ms,
      by_one_ms / stages_ms);
  return cluster.Close();
}

}  // namespace
}  // namespace lockstep::examples::pipeline

int main(int argc, char** argv) {
  lockstep::examples::pipeline::Flags flags;
  const int exit_code = lockstep::examples::ParseFlags(
      "Sends micro-batches through two layers on two halves of the workers, and checks the result.",
      lockstep::examples::WithClusterFlags(
          flags.cluster,
          {
              {"--micro-batches", &flags.micro_batches, "How many are under way", 1024},
              {"--tokens", &flags.tokens, "Of a micro-batch", 65536},
              {"--repeat", &flags.repeat, "Runs that are timed", 1'000'000},
          }),
      argc, argv);
  if (exit_code >= 0) return exit_code;

  const lockstep::Status status = lockstep::examples::pipeline::Run(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "pipeline: %s\n", lockstep::Message(status).c_str());
  return 1;
}
