// What it saves to launch a plan as one graph, and that it comes to the same in every bit.
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/program.h"
#include "tools/bench/clusters.h"
#include "tools/bench/report.h"
#include "tools/bench/rows.h"
#include "tools/bench/settings.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kGraphGoal = 1;
constexpr int kLayers = 10;
constexpr int kInARow = 50;

// Layers of a call, a sum over the ranks, and an exchange: on one rank, of calls alone.
StatusOr<plan::Program> Layers(int ranks, int64_t rows, int64_t columns) {
  std::vector<Rank> all;
  for (Rank rank = 0; rank < ranks; ++rank) all.push_back(rank);
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Mesh mesh, plan::Mesh::Line(std::move(all)));
  const auto layout = [&](const plan::Placement& placement) {
    return plan::Layout::Make({rows, columns}, DType::kFloat32, mesh, {placement});
  };
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Layout part, layout(plan::Placement::Shard(0)));
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Layout whole, layout(plan::Placement::Replicate()));
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Layout partial,
                            layout(plan::Placement::Partial(Reduction::kAvg)));
  plan::ProgramBuilder program;
  plan::ValueId x = program.Input("x", part);
  for (int layer = 0; layer < kLayers; ++layer) {
    const plan::ValueId gathered = program.Reshard(x, whole);
    const plan::ValueId sums = program.Make(partial);
    program.Call("lockstep.copy", {plan::Read(gathered), plan::Write(sums)});
    x = program.Reshard(sums, part);
  }
  program.Output("y", x);
  return program.Build();
}

// The median time of one execution of many that follow each other without a wait.
StatusOr<double> MicrosOf(Session& session, BoundPlan& plan, const ExecuteOptions& options) {
  std::vector<double> micros;
  for (int i = 0; i < 5; ++i) {
    LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
    const auto began = Clock::now();
    for (int n = 0; n < kInARow; ++n) LOCKSTEP_RETURN_IF_ERROR(plan.Execute(options));
    LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
    micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count() /
                     kInARow);
  }
  return Median(std::move(micros));
}

}  // namespace

Status MeasureGpuPlan(const Settings& settings, int gpus, Report& report) {
  const std::string ranks = std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs");
  Line& line = report.Add({.row = "gpu",
                           .what = "a plan of 10 layers launched as one graph, " + ranks,
                           .unit = "us",
                           .better = Better::kLess,
                           .goal = Goal::RatioAtLeast(kGraphGoal),
                           .note = "the same result in every bit"});
  constexpr int64_t kColumns = 256;
  const int64_t rows = int64_t{64} * gpus;
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, StartGpuCluster(gpus));
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster->Connect());
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Program program, Layers(gpus, rows, kColumns));
  std::vector<float> numbers(static_cast<size_t>(rows * kColumns));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 1.0F / static_cast<float>(i + 1);
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef x,
                            session.Place(HostTensor::Of<float>({rows, kColumns}, numbers),
                                          program.value(program.inputs()[0]).layout));
  LOCKSTEP_ASSIGN_OR_RETURN(BoundPlan plan, session.Bind(program, {.inputs = {{"x", x}}}));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef y, plan.Output("y"));
  const ExecuteOptions each_step{.step_by_step = true};
  LOCKSTEP_RETURN_IF_ERROR(plan.Execute(each_step));
  LOCKSTEP_ASSIGN_OR_RETURN(const HostTensor expected, session.Collect(y));
  // Seen, captured, and launched again.
  for (int i = 0; i < 3; ++i) LOCKSTEP_RETURN_IF_ERROR(plan.Execute());
  LOCKSTEP_ASSIGN_OR_RETURN(const HostTensor found, session.Collect(y));
  if (found.data != expected.data) {
    return Internal("a plan that is launched as one graph has another result than step by step");
  }
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(const double ours, MicrosOf(session, plan, {}));
    LOCKSTEP_ASSIGN_OR_RETURN(const double theirs, MicrosOf(session, plan, each_step));
    line.ours.push_back(ours);
    line.Rival("step by step").values.push_back(theirs);
  }
  LOCKSTEP_RETURN_IF_ERROR(session.Close());
  return cluster->Stop();
}

}  // namespace lockstep::bench
