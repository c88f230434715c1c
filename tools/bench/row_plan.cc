// Tensors that move from one layout to another: what it takes to find out how, and to do it.
#include <chrono>
#include <utility>
#include <vector>

#include "runtime/plan/reshard.h"
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
constexpr double kReshardGoal = 2;
constexpr int kReshards = 20;
constexpr int64_t kRows = 4096;
constexpr int64_t kColumns = 1024;  // of float32: 16 MiB

double MicrosSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

StatusOr<Layout> On(std::vector<Rank> ranks, Placement placement) {
  LOCKSTEP_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Line(std::move(ranks)));
  return Layout::Make({kRows, kColumns}, DType::kFloat32, std::move(mesh), {placement});
}

// Twenty reshards in a row: from rows to columns and back, by way of replicas and of partial sums.
Status MeasureLowering(const Settings& settings, Report& report) {
  Line& line = report.Add({.row = "plan",
                           .what = "lowering 20 reshards, 4 ranks",
                           .unit = "us",
                           .better = Better::kLess,
                           .goal = Goal::ValueAtMost(kLoweringGoalMicros)});
  std::vector<Layout> layouts;
  for (const Placement& placement : {Placement::Shard(0), Placement::Shard(1),
                                     Placement::Replicate(), Placement::Partial(Reduction::kSum)}) {
    LOCKSTEP_ASSIGN_OR_RETURN(Layout layout, On({0, 1, 2, 3}, placement));
    layouts.push_back(std::move(layout));
  }
  for (int round = 0; round < settings.rounds; ++round) {
    std::vector<double> micros;
    for (int i = 0; i < 200; ++i) {
      const auto start = Clock::now();
      for (size_t step = 0; step < kReshards; ++step) {
        const StatusOr<plan::Reshard> reshard = plan::LowerReshard(
            layouts[step % 4], layouts[(step + 1) % 4], plan::Topology(), plan::CostModel());
        LOCKSTEP_RETURN_IF_ERROR(reshard.status());
      }
      micros.push_back(MicrosSince(start));
    }
    line.ours.push_back(Median(std::move(micros)));
  }
  return OkStatus();
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

}  // namespace

Status MeasurePlan(const Settings& settings, Report& report) {
  LOCKSTEP_RETURN_IF_ERROR(MeasureLowering(settings, report));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, StartLocalCluster(4));
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster->Connect());
  LOCKSTEP_RETURN_IF_ERROR(MeasureBetweenMeshes(settings, session, report));
  LOCKSTEP_RETURN_IF_ERROR(session.Close());
  return cluster->Stop();
}

}  // namespace lockstep::bench
