// When steps begin and end, by the cost model.
#include "tools/cli/plan/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/unit/tools/cli/plan/plan_text.h"
#include "tools/cli/plan/explain_json.h"
#include "tools/cli/plan/explain_text.h"

namespace lockstep::cli::plan_file {
namespace {

// Two ranks, of which one has a call more before they meet.
TEST(PlanScheduleTest, ASchedulePutsWaitsWhereRanksMeet) {
  std::map<Rank, plan::ProgramSteps> ranks;
  const plan::CollectiveStep meet{0,         OperationKind::kAllReduce, {0, 1}, {0, 0, 8},
                                  {0, 0, 8}, Reduction::kSum,           {},     {}};
  for (const Rank rank : {0, 1}) {
    ranks[rank].buffers.push_back({plan::StepBuffer::Home::kInput, DType::kInt8, {8}});
    if (rank == 1) ranks[rank].steps.push_back({plan::CallStep{}, 0});
    ranks[rank].steps.push_back({meet, 0});
  }
  const plan::CostModel costs;
  const auto schedule = Schedule(ranks, plan::Topology(), costs);
  const ScheduledStep& waits = schedule.at(0)[0];
  EXPECT_EQ(waits.arrived, 0);
  EXPECT_EQ(waits.begin, kCallMicros);
  EXPECT_EQ(waits.end, kCallMicros + costs.step_us + 8 * costs.us_per_byte);
  EXPECT_EQ(schedule.at(1)[1].arrived, kCallMicros);
  EXPECT_EQ(schedule.at(1)[1].end, waits.end);
}

// Allgathers of one collective in two rows of a grid over two nodes, an allreduce, a
// reduce-scatter: the schedule, which pictures and analyses show, says of each what the table says.
TEST(PlanScheduleTest, AScheduleTakesAsLongAsTheTableSays) {
  const StatusOr<PlanFile> file = ReadText(R"(plan:
  nodes: [0, 0, 1, 1]
  meshes:
    all: {ranks: 0-3}
    grid: {axes: {x: 2, y: 2}, ranks: [0, 2, 1, 3]}
  layouts:
    tiles: {shape: [64, 64], dtype: f32, mesh: grid, placements: [shard(1), shard(0)]}
    columns: {shape: [64, 64], dtype: f32, mesh: grid, placements: [shard(1), replicate]}
    sums: {shape: [64, 64], dtype: f32, mesh: all, placements: [partial(sum)]}
    whole: {shape: [64, 64], dtype: f32, mesh: all, placements: [replicate]}
    rows: {shape: [64, 64], dtype: f32, mesh: all, placements: [shard(0)]}
  inputs: {x: tiles, p: sums}
  steps:
    - {reshard: x, to: columns, as: gathered}
    - {reshard: p, to: whole, as: reduced}
    - {reshard: p, to: rows, as: scattered}
  outputs: [gathered, reduced, scattered]
)");
  ASSERT_TRUE(file.ok()) << file.status();
  const Json reshards = PlanToJson(*file)["reshards"];
  std::map<Rank, plan::ProgramSteps> ranks;
  for (const Rank rank : file->program().Ranks()) ranks.emplace(rank, file->StepsOf(rank));
  const auto schedule = Schedule(ranks, file->topology, plan::CostModel());
  ASSERT_EQ(schedule.at(0).size(), reshards.size());
  for (size_t i = 0; i < reshards.size(); ++i) {
    const ScheduledStep& step = schedule.at(0)[i];
    EXPECT_NEAR(step.end - step.begin, reshards[i]["predicted_us"].get<double>(), 1e-6)
        << reshards[i]["as"];
  }
}

// A call goes on beside a copy of the other lane, and the next one waits for that.
TEST(PlanScheduleTest, AScheduleHasTwoLanes) {
  constexpr int64_t kBytes = 1 << 20;
  const plan::CostModel costs;
  const double copied = kBytes * costs.copy_us_per_byte;
  std::map<Rank, plan::ProgramSteps> ranks;
  plan::ProgramSteps& steps = ranks[0];
  steps.lanes_overlap = true;
  steps.buffers.assign(2, {plan::StepBuffer::Home::kInput, DType::kInt8, {kBytes}});
  const plan::CopyStep copy{0, 1, {}, {}, {kBytes}, 0, kBytes};
  steps.steps = {{copy, 0, plan::Lane::kCommunication},
                 {plan::CallStep{}, 0},
                 {plan::CallStep{}, 0, plan::Lane::kCompute, 0}};
  const auto schedule = Schedule(ranks, plan::Topology(), costs);
  EXPECT_EQ(schedule.at(0)[1].begin, 0);
  EXPECT_EQ(schedule.at(0)[1].end, kCallMicros);
  EXPECT_EQ(schedule.at(0)[2].begin, std::max(copied, kCallMicros));
}

}  // namespace
}  // namespace lockstep::cli::plan_file
