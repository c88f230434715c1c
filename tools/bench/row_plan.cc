// Tensors that move from one layout to another: what it takes to find out how, and to do it.
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/lowering/topology.h"
#include "runtime/plan/passes/program_lowering.h"
#include "runtime/plan/plan_key.h"
#include "runtime/plan/program.h"
#include "services/worker/execute/program_cache.h"
#include "tools/bench/clusters.h"
#include "tools/bench/program.h"
#include "tools/bench/report.h"
#include "tools/bench/rows.h"
#include "tools/bench/settings.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;
using plan::Layout;
using plan::Mesh;
using plan::Placement;

constexpr double kLoweringGoalMicros = 100;
constexpr double kKnownGoalMicros = 5;
constexpr double kReshardGoal = 2;
constexpr double kNopGoal = 3;
constexpr double kStepGoalMicros = 0.05;
constexpr double kSmallCollectivesGoal = 1.2;
constexpr int kSteps = 20;
constexpr int64_t kRows = 4096;
constexpr int64_t kColumns = 1024;  // of float32: 16 MiB

double MicrosSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

StatusOr<Layout> On(std::vector<Rank> ranks, const Placement& placement,
                    int64_t columns = kColumns) {
  LOCKSTEP_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Line(std::move(ranks)));
  return Layout::Make({kRows, columns}, DType::kFloat32, std::move(mesh), {placement});
}

// Ten layers, each of which brings rows together, and back by way of partial sums.
StatusOr<plan::Program> TenLayers(const std::string& function, int64_t columns = kColumns) {
  const std::vector<Rank> all = {0, 1, 2, 3};
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout rows, On(all, Placement::Shard(0), columns));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout whole, On(all, Placement::Replicate(), columns));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout partial,
                            On(all, Placement::Partial(Reduction::kSum), columns));
  plan::ProgramBuilder builder;
  plan::ValueId x = builder.Input("x", rows);
  for (int layer = 0; layer < kSteps / 2; ++layer) {
    const plan::ValueId sums =
        builder.Call(function, {plan::Read(builder.Reshard(x, whole))}, partial);
    x = builder.Reshard(sums, rows);
  }
  builder.Output("x", x);
  return builder.Build();
}

Status MeasureLowering(const Settings& settings, Report& report) {
  Line& line = report.Add({.row = "plan",
                           .what = "lowering 20 reshards of 10 layers, 4 ranks",
                           .unit = "us",
                           .better = Better::kLess,
                           .goal = Goal::ValueAtMost(kLoweringGoalMicros)});
  LOCKSTEP_ASSIGN_OR_RETURN(plan::Program built, TenLayers("layer"));
  const auto program = std::make_shared<const plan::Program>(std::move(built));
  for (int round = 0; round < settings.rounds; ++round) {
    std::vector<double> micros;
    for (int i = 0; i < 200; ++i) {
      const auto start = Clock::now();
      LOCKSTEP_RETURN_IF_ERROR(
          plan::LowerProgram(program, plan::Topology(), plan::CostModel()).status());
      micros.push_back(MicrosSince(start));
    }
    line.ours.push_back(Median(std::move(micros)));
  }
  return OkStatus();
}

// The same program again: what a worker does with one that it has prepared, without a cluster.
Status MeasureKnown(const Settings& settings, Report& report) {
  Line& line = report.Add({.row = "plan",
                           .what = "a plan that is known, found again on a worker",
                           .unit = "us",
                           .better = Better::kLess,
                           .goal = Goal::ValueAtMost(kKnownGoalMicros)});
  worker::ProgramCache cache;
  cache.SetWorld({.rank = 0, .world_size = 4});
  // As many as are kept, so that the one that is wanted is last.
  std::vector<plan::EncodedProgram> programs;
  for (size_t i = 0; i < worker::ProgramCache::kMaxEntries; ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(const plan::Program program, TenLayers("layer" + std::to_string(i)));
    programs.push_back(plan::Encode(program));
    LOCKSTEP_RETURN_IF_ERROR(cache.Prepare(programs.back()).status());
  }
  for (int round = 0; round < settings.rounds; ++round) {
    std::vector<double> micros;
    for (const plan::EncodedProgram& program : programs) {
      // As it comes from another session: equal bytes in other memory.
      LOCKSTEP_ASSIGN_OR_RETURN(const plan::EncodedProgram copy,
                                plan::CopyEncoded(program.bytes()));
      const auto start = Clock::now();
      LOCKSTEP_RETURN_IF_ERROR(cache.Prepare(copy).status());
      micros.push_back(MicrosSince(start));
    }
    line.ours.push_back(Median(std::move(micros)));
  }
  if (cache.use().misses == worker::ProgramCache::kMaxEntries) return OkStatus();
  return Internal("programs that were prepared were not found again");
}

// The median time of `move` and of all workers' answers after it.
template <typename Move>
StatusOr<double> TimeOf(Session& session, Move move) {
  std::vector<double> micros;
  for (int i = 0; i < 30; ++i) {
    LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
    const auto start = Clock::now();
    LOCKSTEP_RETURN_IF_ERROR(move());
    LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
    micros.push_back(MicrosSince(start));
  }
  return Median(std::move(micros));
}

// Rows of a tensor move from two ranks to two others; the rival gathers them on one of these, which
// scatters them.
Status MeasureBetweenMeshes(const Settings& settings, Session& session, Report& report) {
  Line& line = report.Add({.row = "plan",
                           .what = "rows of 16 MiB from ranks 0, 1 to ranks 2, 3",
                           .unit = "us",
                           .better = Better::kLess,
                           .goal = Goal::RatioAtLeast(kReshardGoal)});
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout from, On({0, 1}, Placement::Shard(0)));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout to, On({2, 3}, Placement::Shard(0)));
  const HostTensor tensor{DType::kFloat32, from.shape(),
                          std::string(static_cast<size_t>(kRows * kColumns) * sizeof(float), 'x')};
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef placed, session.Place(tensor, from));
  // What a rank contributes that has none of it.
  const HostTensor nothing{DType::kFloat32, {0, kColumns}, ""};
  LOCKSTEP_RETURN_IF_ERROR(session.DebugSet(placed, 2, nothing));
  LOCKSTEP_RETURN_IF_ERROR(session.DeclareLayout(placed, from));
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(
        const double ours, TimeOf(session, [&] { return session.Reshard(placed, to).status(); }));
    line.ours.push_back(ours);
    LOCKSTEP_ASSIGN_OR_RETURN(const double rival, TimeOf(session, [&]() -> Status {
                                LOCKSTEP_ASSIGN_OR_RETURN(
                                    const DRef gathered,
                                    session.Gather(placed, 2, {.team = {0, 1, 2}}));
                                return session.Scatter(gathered, 0, {.team = {2, 3}}).status();
                              }));
    line.Rival("gather and scatter through one rank").values.push_back(rival);
  }
  return OkStatus();
}

// The median time of one of many executions that follow each other without a wait.
template <typename Execute>
StatusOr<double> TimeInARow(Session& session, int times, Execute execute) {
  std::vector<double> micros;
  for (int i = 0; i < 15; ++i) {
    LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
    const auto start = Clock::now();
    for (int n = 0; n < times; ++n) LOCKSTEP_RETURN_IF_ERROR(execute());
    LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
    micros.push_back(MicrosSince(start) / times);
  }
  return Median(std::move(micros));
}

StatusOr<Layout> OneElement(const Placement& placement) {
  LOCKSTEP_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Line({0, 1, 2, 3}));
  return Layout::Make({1}, DType::kInt64, std::move(mesh), {placement});
}

// A program of `steps` calls that do nothing.
StatusOr<BoundPlan> BindNops(Session& session, const DRef& x, const Layout& layout, int steps) {
  plan::ProgramBuilder program;
  const plan::ValueId input = program.Input("x", layout);
  for (int i = 0; i < steps; ++i) program.Call("lockstep.nop", {plan::Read(input)});
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Program built, program.Build());
  return session.Bind(built, {.inputs = {{"x", x}}});
}

Status MeasureNops(const Settings& settings, Session& session, Report& report) {
  Line& line = report.Add({.row = "plan",
                           .what = "20 no-op calls, executed as a plan",
                           .unit = "us",
                           .better = Better::kLess,
                           .goal = Goal::RatioAtLeast(kNopGoal)});
  Line& step = report.Add({.row = "plan",
                           .what = "one no-op call inside a plan",
                           .unit = "us",
                           .better = Better::kLess,
                           .goal = Goal::ValueAtMost(kStepGoalMicros)});
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout layout, OneElement(Placement::Replicate()));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef x, session.Empty({1}, DType::kInt64));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef nop, session.GetFunction("lockstep.nop"));
  LOCKSTEP_ASSIGN_OR_RETURN(BoundPlan plan, BindNops(session, x, layout, kSteps));
  // On one rank, so that a step takes what it takes of one worker's processor.
  constexpr int kMany = 4000;
  LOCKSTEP_ASSIGN_OR_RETURN(Mesh one_rank, Mesh::Line({0}));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Layout on_one,
      Layout::Make({1}, DType::kInt64, std::move(one_rank), {Placement::Replicate()}));
  LOCKSTEP_ASSIGN_OR_RETURN(BoundPlan many, BindNops(session, x, on_one, kMany));
  LOCKSTEP_ASSIGN_OR_RETURN(BoundPlan few, BindNops(session, x, on_one, 1));
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(const double ours,
                              TimeInARow(session, 200, [&] { return plan.Execute(); }));
    line.ours.push_back(ours);
    LOCKSTEP_ASSIGN_OR_RETURN(const double rival, TimeInARow(session, 200, [&]() -> Status {
                                for (int i = 0; i < kSteps; ++i) {
                                  LOCKSTEP_RETURN_IF_ERROR(session.Call(nop, x).status());
                                }
                                return OkStatus();
                              }));
    line.Rival("call by call").values.push_back(rival);
    LOCKSTEP_ASSIGN_OR_RETURN(const double long_one,
                              TimeInARow(session, 10, [&] { return many.Execute(); }));
    LOCKSTEP_ASSIGN_OR_RETURN(const double short_one,
                              TimeInARow(session, 10, [&] { return few.Execute(); }));
    step.ours.push_back((long_one - short_one) / (kMany - 1));
  }
  return OkStatus();
}

Status MeasureSmallCollectives(const Settings& settings, Session& session, Report& report) {
  Line& line = report.Add({.row = "plan",
                           .what = "20 allreduces of 8 bytes, executed as a plan",
                           .unit = "us",
                           .better = Better::kLess,
                           .goal = Goal::RatioAtLeast(kSmallCollectivesGoal)});
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout partial, OneElement(Placement::Partial(Reduction::kSum)));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout whole, OneElement(Placement::Replicate()));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef full, session.GetFunction("lockstep.full"));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef x, session.Call(full, Shape({1}), 1, DType::kInt64));
  plan::ProgramBuilder program;
  const plan::ValueId input = program.Input("x", partial);
  std::vector<DRef> results;
  for (int i = 0; i < kSteps; ++i) {
    program.Output("y" + std::to_string(i), program.Reshard(input, whole));
    LOCKSTEP_ASSIGN_OR_RETURN(DRef result, session.Empty({1}, DType::kInt64));
    results.push_back(std::move(result));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Program built, program.Build());
  LOCKSTEP_ASSIGN_OR_RETURN(BoundPlan plan, session.Bind(built, {.inputs = {{"x", x}}}));
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(const double ours,
                              TimeInARow(session, 20, [&] { return plan.Execute(); }));
    line.ours.push_back(ours);
    LOCKSTEP_ASSIGN_OR_RETURN(
        const double rival, TimeInARow(session, 20, [&]() -> Status {
          for (const DRef& result : results) {
            LOCKSTEP_RETURN_IF_ERROR(
                session.AllReduce(x, Reduction::kSum, {.destination = result}).status());
          }
          return OkStatus();
        }));
    line.Rival("call by call").values.push_back(rival);
  }
  return OkStatus();
}

// Binding until all workers have answered: a program that they know, beside one that is new to
// them.
Status MeasureBind(const Settings& settings, Session& session, Report& report) {
  Line& line = report.Add({.row = "plan",
                           .what = "binding a program of 20 reshards that is known",
                           .unit = "us",
                           .better = Better::kLess});
  // Of little memory: that of a plan is filled with 0 when it is bound, known or not.
  constexpr int64_t kOneColumn = 1;
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout rows, On({0, 1, 2, 3}, Placement::Shard(0), kOneColumn));
  const HostTensor tensor{DType::kFloat32, rows.shape(),
                          std::string(static_cast<size_t>(kRows) * sizeof(float), 'x')};
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef x, session.Place(tensor, rows));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef copy, session.GetFunction("lockstep.copy"));
  int made = 0;
  const auto bind = [&](const std::string& function) -> Status {
    LOCKSTEP_ASSIGN_OR_RETURN(const plan::Program program, TenLayers(function, kOneColumn));
    return session.Bind(program, {.inputs = {{"x", x}}, .functions = {{function, copy}}}).status();
  };
  LOCKSTEP_RETURN_IF_ERROR(bind("known"));
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(const double known, TimeOf(session, [&] { return bind("known"); }));
    line.ours.push_back(known);
    LOCKSTEP_ASSIGN_OR_RETURN(
        const double fresh, TimeOf(session, [&] { return bind("new" + std::to_string(made++)); }));
    line.Rival("one that is new").values.push_back(fresh);
  }
  return OkStatus();
}

}  // namespace

Status MeasurePlan(const Settings& settings, Report& report) {
  LOCKSTEP_RETURN_IF_ERROR(MeasureLowering(settings, report));
  LOCKSTEP_RETURN_IF_ERROR(MeasureKnown(settings, report));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, StartLocalCluster(4));
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster->Connect());
  LOCKSTEP_RETURN_IF_ERROR(MeasureBetweenMeshes(settings, session, report));
  LOCKSTEP_RETURN_IF_ERROR(MeasureNops(settings, session, report));
  LOCKSTEP_RETURN_IF_ERROR(MeasureSmallCollectives(settings, session, report));
  LOCKSTEP_RETURN_IF_ERROR(MeasureGroupedExchanges(settings, session, report));
  LOCKSTEP_RETURN_IF_ERROR(MeasureBind(settings, session, report));
  LOCKSTEP_RETURN_IF_ERROR(session.Close());
  LOCKSTEP_RETURN_IF_ERROR(cluster->Stop());
  return MeasureOverlap(settings, report);
}

}  // namespace lockstep::bench
