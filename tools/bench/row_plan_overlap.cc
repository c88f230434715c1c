// What plans gain by doing exchanges together, and beside calls.
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/plan/program.h"
#include "services/local/local_cluster.h"
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

constexpr double kTogetherGoal = 1.5;

// The median time of one of many executions that follow each other without a wait.
StatusOr<double> TimeOfOne(Session& session, BoundPlan& plan, int times) {
  std::vector<double> micros;
  for (int i = 0; i < 15; ++i) {
    LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
    const auto start = Clock::now();
    for (int n = 0; n < times; ++n) LOCKSTEP_RETURN_IF_ERROR(plan.Execute());
    LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    micros.push_back(took.count() / times);
  }
  return Median(std::move(micros));
}

StatusOr<Layout> OnAll(int ranks, const Shape& shape, const Placement& placement) {
  std::vector<Rank> all;
  for (Rank rank = 0; rank < ranks; ++rank) all.push_back(rank);
  LOCKSTEP_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Line(std::move(all)));
  return Layout::Make(shape, DType::kFloat32, std::move(mesh), {placement});
}

// `count` reshards of one tensor; apart, if calls that do nothing are between them: two, for an
// exchange is moved ahead of one.
StatusOr<BoundPlan> BindReshards(Session& session, const DRef& x, const Layout& from,
                                 const Layout& to, int count, bool apart) {
  plan::ProgramBuilder program;
  const plan::ValueId input = program.Input("x", from);
  for (int i = 0; i < count; ++i) {
    program.Output("y" + std::to_string(i), program.Reshard(input, to));
    for (int calls = 0; apart && calls < 2; ++calls) {
      program.Call("lockstep.nop", {plan::Read(input)});
    }
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Program built, program.Build());
  return session.Bind(built, {.inputs = {{"x", x}}});
}

Status MeasureTogether(const Settings& settings, Session& session, const std::string& what,
                       int count, const Layout& from, const Layout& to, Report& report) {
  Line& line = report.Add({.row = "plan",
                           .what = what,
                           .unit = "us",
                           .better = Better::kLess,
                           .goal = Goal::RatioAtLeast(kTogetherGoal)});
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef full, session.GetFunction("lockstep.full"));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef x,
                            session.Call(full, from.TileAt(0).extents, 1, DType::kFloat32));
  LOCKSTEP_ASSIGN_OR_RETURN(BoundPlan together,
                            BindReshards(session, x, from, to, count, /*apart=*/false));
  LOCKSTEP_ASSIGN_OR_RETURN(BoundPlan apart,
                            BindReshards(session, x, from, to, count, /*apart=*/true));
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(const double ours, TimeOfOne(session, together, 50));
    line.ours.push_back(ours);
    LOCKSTEP_ASSIGN_OR_RETURN(const double rival, TimeOfOne(session, apart, 50));
    line.Rival("one after the other").values.push_back(rival);
  }
  return OkStatus();
}

constexpr int kOverlapRanks = 2;  // a core for each, on a small machine
constexpr int64_t kTokens = 4096;
constexpr int64_t kInner = 512;  // 8 MiB of float32 that are gathered
constexpr int64_t kOutputs = 4;
// Two milliseconds for all of them: about what gathering them takes.
constexpr int64_t kNanosecondsPerRow = 500;

// Gathers rows, multiplies them by this rank's columns of the weights, in chunks; or waits for as
// long as that may take.
StatusOr<BoundPlan> BindGatherAndMultiply(Session& session, const DRef& module, const DRef& x,
                                          const DRef& weights, bool waits, int chunks) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout rows,
                            OnAll(kOverlapRanks, {kTokens, kInner}, Placement::Shard(0)));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout whole, rows.With({Placement::Replicate()}));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Layout by_column,
      OnAll(kOverlapRanks, {kOutputs * kOverlapRanks, kInner}, Placement::Shard(0)));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Layout product,
      OnAll(kOverlapRanks, {kTokens, kOutputs * kOverlapRanks}, Placement::Shard(1)));
  const std::string function = waits ? "wait_for_rows" : "multiply_rows";
  plan::ProgramBuilder program;
  const plan::ValueId gathered = program.Reshard(program.Input("x", rows), whole);
  std::vector<plan::CallArgument> arguments = {plan::Read(gathered),
                                               plan::Read(program.Input("weights", by_column))};
  if (waits) arguments.push_back(plan::Pass(kNanosecondsPerRow));
  program.Output("y",
                 program.CallInChunks(function, std::move(arguments), product, {.count = chunks}));
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Program built, program.Build());
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef called, session.GetFunction(module, function));
  return session.Bind(
      built, {.inputs = {{"x", x}, {"weights", weights}}, .functions = {{function, called}}});
}

// Workers whose plans have so many lanes, and what their plans work on.
struct LaneCluster {
  std::unique_ptr<local::LocalCluster> cluster;
  std::optional<Session> session;
  DRef module;
  DRef x;
  DRef weights;
};

StatusOr<LaneCluster> StartWithLanes(int lanes) {
  LaneCluster started;
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::string module,
      FindProgram("overlap_module.so", "LOCKSTEP_OVERLAP_MODULE", "tools/bench"));
  local::LocalClusterOptions options;
  options.workers = kOverlapRanks;
  options.mode = local::LocalClusterOptions::Mode::kProcesses;
  options.plan_lanes = lanes;
  options.module_path = {std::filesystem::path(module).parent_path().string()};
  LOCKSTEP_ASSIGN_OR_RETURN(started.cluster, local::LocalCluster::Start(options));
  LOCKSTEP_ASSIGN_OR_RETURN(started.session, started.cluster->Connect());
  Session& session = *started.session;
  LOCKSTEP_ASSIGN_OR_RETURN(started.module, session.LoadModule(module));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef full, session.GetFunction("lockstep.full"));
  LOCKSTEP_ASSIGN_OR_RETURN(
      started.x, session.Call(full, Shape({kTokens / kOverlapRanks, kInner}), 1, DType::kFloat32));
  LOCKSTEP_ASSIGN_OR_RETURN(started.weights,
                            session.Call(full, Shape({kOutputs, kInner}), 1, DType::kFloat32));
  return started;
}

// In two lanes and chunks, against two lanes without chunks, and chunks without lanes: the one
// overlaps nothing, and the other shows what smaller pieces alone are worth.
Status MeasureChunks(const Settings& settings, LaneCluster& one_lane, LaneCluster& two_lanes,
                     bool waits, Report& report) {
  const auto bind = [&](LaneCluster& on, int chunks) {
    return BindGatherAndMultiply(*on.session, on.module, on.x, on.weights, waits, chunks);
  };
  LOCKSTEP_ASSIGN_OR_RETURN(BoundPlan at_once, bind(two_lanes, 1));
  struct InChunks {
    Line* line;
    BoundPlan plan;
    BoundPlan in_one_lane;
  };
  std::vector<InChunks> all;
  for (const int chunks : {2, 4}) {
    Line& line = report.Add({.row = "plan",
                             .what = std::string("allgather of 8 MiB + ") +
                                     (waits ? "a call that waits 2 ms" : "a matmul") + ", in " +
                                     std::to_string(chunks) + " chunks",
                             .unit = "us",
                             .better = Better::kLess});
    LOCKSTEP_ASSIGN_OR_RETURN(BoundPlan plan, bind(two_lanes, chunks));
    LOCKSTEP_ASSIGN_OR_RETURN(BoundPlan in_one_lane, bind(one_lane, chunks));
    all.push_back({&line, std::move(plan), std::move(in_one_lane)});
  }
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(const double rival, TimeOfOne(*two_lanes.session, at_once, 5));
    for (InChunks& one : all) {
      LOCKSTEP_ASSIGN_OR_RETURN(const double ours, TimeOfOne(*two_lanes.session, one.plan, 5));
      one.line->ours.push_back(ours);
      one.line->Rival("at once, two lanes").values.push_back(rival);
      LOCKSTEP_ASSIGN_OR_RETURN(const double other,
                                TimeOfOne(*one_lane.session, one.in_one_lane, 5));
      one.line->Rival("in chunks, one lane").values.push_back(other);
    }
  }
  return OkStatus();
}

}  // namespace

Status MeasureGroupedExchanges(const Settings& settings, Session& session, Report& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout sums, OnAll(4, {2}, Placement::Partial(Reduction::kSum)));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout whole, sums.With({Placement::Replicate()}));
  LOCKSTEP_RETURN_IF_ERROR(MeasureTogether(
      settings, session, "8 allreduces of 8 bytes, done together", 8, sums, whole, report));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout rows, OnAll(4, {16, 64}, Placement::Shard(0)));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout columns, rows.With({Placement::Shard(1)}));
  return MeasureTogether(settings, session, "4 reshards of 4 KiB, rows to columns, done together",
                         4, rows, columns, report);
}

Status MeasureOverlap(const Settings& settings, Report& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(LaneCluster one_lane, StartWithLanes(1));
  LOCKSTEP_ASSIGN_OR_RETURN(LaneCluster two_lanes, StartWithLanes(2));
  for (const bool waits : {false, true}) {
    LOCKSTEP_RETURN_IF_ERROR(MeasureChunks(settings, one_lane, two_lanes, waits, report));
  }
  for (LaneCluster* const cluster : {&one_lane, &two_lanes}) {
    LOCKSTEP_RETURN_IF_ERROR(cluster->session->Close());
    LOCKSTEP_RETURN_IF_ERROR(cluster->cluster->Stop());
  }
  return OkStatus();
}

}  // namespace lockstep::bench
