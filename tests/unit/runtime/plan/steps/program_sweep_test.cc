// Random programs, executed by the simulator, against what they mean for whole tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/plan/passes/program_lowering.h"
#include "runtime/plan/program.h"
#include "runtime/plan/steps/check_steps.h"
#include "runtime/plan/steps/program_steps.h"
#include "runtime/plan/steps/simulator.h"
#include "tests/support/random_program.h"
#include "tests/unit/runtime/plan/lowering/reshard_check.h"

namespace lockstep::plan {
namespace {

using support::Plus;
using support::RandomCalls;
using support::RandomProgram;
using support::Times;

// The functions that random programs call.
Status CallOnTiles(const Program& program, const CallStep& step, SimulatedRank& rank) {
  const auto& call = std::get<CallOp>(program.ops()[step.op].what);
  const std::string& name = program.functions()[static_cast<size_t>(call.function)];
  std::vector<int32_t*> tiles;
  for (const int buffer : step.argument_buffers) {
    tiles.push_back(reinterpret_cast<int32_t*>(rank.At(buffer)));
  }
  const int64_t count =
      rank.program.buffers[static_cast<size_t>(step.argument_buffers[0])].extents.NumElements();
  auto* const result =
      step.result_buffer < 0 ? nullptr : reinterpret_cast<int32_t*>(rank.At(step.result_buffer));
  for (int64_t i = 0; i < count; ++i) {
    if (name == "add_twice") tiles[2][i] = Plus(tiles[0][i], Times(2, tiles[1][i]));
    if (name == "scale") tiles[0][i] = Times(tiles[0][i], support::kScale);
    if (name == "negate") result[i] = Times(support::kNegate, tiles[0][i]);
    if (name == "lockstep.copy") (result != nullptr ? result : tiles[1])[i] = tiles[0][i];
  }
  return OkStatus();
}

// The memory of each rank against its bound.
void AddMemoryRatio(const ProgramSteps& steps, std::vector<double>& ratios) {
  EXPECT_GE(steps.arena_bytes, steps.arena_bytes_bound);
  // One for all ranks may have what this one has no use for.
  if (!steps.same_offsets) {
    EXPECT_LE(steps.arena_bytes, steps.arena_bytes_apart);
  }
  if (steps.arena_bytes_bound == 0) return;
  ratios.push_back(static_cast<double>(steps.arena_bytes) /
                   static_cast<double>(steps.arena_bytes_bound));
}

// Puts the steps of the two lanes into an order that they allow: one lane first as far as it can,
// or either by chance.
void Interleave(std::mt19937& random, std::vector<ProgramStep>* steps) {
  const auto below = [&](uint32_t end) { return static_cast<size_t>(random() % end); };
  std::array<std::vector<int>, 2> lanes;
  for (size_t i = 0; i < steps->size(); ++i) {
    lanes[static_cast<size_t>((*steps)[i].lane)].push_back(static_cast<int>(i));
  }
  std::array<size_t, 2> next = {0, 0};
  const size_t favourite = below(3);  // 2: none
  std::vector<ProgramStep> order;
  while (order.size() < steps->size()) {
    size_t lane = favourite < 2 ? favourite : below(2);
    const auto can_go_on = [&](size_t mine) {
      const std::vector<int>& other = lanes[1 - mine];
      const size_t done = next[1 - mine];
      if (next[mine] == lanes[mine].size()) return false;
      const int waits_for = (*steps)[static_cast<size_t>(lanes[mine][next[mine]])].waits_for;
      return done == other.size() || waits_for < other[done];
    };
    if (!can_go_on(lane)) lane = 1 - lane;
    ASSERT_TRUE(can_go_on(lane)) << "the lanes wait for each other";
    order.push_back((*steps)[static_cast<size_t>(lanes[lane][next[lane]++])]);
  }
  *steps = std::move(order);
}

// Runs it on all ranks, as `topology` has them, and compares the outputs. If the lanes of each rank
// overlap, its steps are done in any order that they allow.
void ExpectItDoesWhatItMeans(RandomProgram& random, int world, const Topology& topology,
                             const ExpandOptions& options, std::mt19937& order,
                             std::vector<double>& memory_ratios, int* grouped) {
  const StatusOr<Program> built = random.Build();
  ASSERT_TRUE(built.ok()) << built.status();
  const auto lowered = LowerProgram(std::make_shared<const Program>(*built), topology, CostModel());
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  for (const LoweredOp& op : lowered->ops) *grouped += op.with_previous ? 1 : 0;
  std::map<Rank, SimulatedRank> ranks;
  for (Rank rank = 0; rank < world; ++rank) {
    ranks[rank].program = ExpandProgram(*lowered, rank, options);
    ASSERT_EQ(CheckSteps(*lowered->program, ranks[rank].program, rank), OkStatus());
    if (options.lanes_overlap) Interleave(order, &ranks[rank].program.steps);
    ranks[rank].Allocate();
    // Whatever was there before: nothing may depend on it.
    std::fill(ranks[rank].arena.begin(), ranks[rank].arena.end(), std::byte{0x5A});
    AddMemoryRatio(ranks[rank].program, memory_ratios);
  }
  for (const ValueId id : built->inputs()) {
    const std::vector<int32_t>& elements = random.inputs().at(built->value(id).name).elements;
    std::memcpy(ranks[0].At(static_cast<int>(id)), elements.data(),
                elements.size() * sizeof(int32_t));
  }
  const Status status = Simulate(ranks, [&](Rank, const CallStep& step, SimulatedRank& rank) {
    return CallOnTiles(*lowered->program, step, rank);
  });
  ASSERT_TRUE(status.ok()) << status;
  for (const ValueId id : built->outputs()) {
    const std::string& name = built->value(id).name;
    const std::vector<int32_t>& expected = random.outputs().at(name).elements;
    const auto* const found = reinterpret_cast<const int32_t*>(ranks[0].At(static_cast<int>(id)));
    EXPECT_EQ(std::vector<int32_t>(found, found + expected.size()), expected) << name;
  }
}

TEST(ProgramSweepTest, RandomProgramsDoWhatTheyMean) {
  constexpr uint32_t kPrograms = 1500;
  // Without lanes that overlap, and with them; then the same with one place for all ranks.
  std::array<std::vector<double>, 4> memory_ratios;
  std::mt19937 order(1);
  int collectives = 0;
  int calls_in_chunks = 0;
  int grouped = 0;
  for (uint32_t seed = 0; seed < kPrograms; seed += testing::kOneIn) {
    SCOPED_TRACE("program " + std::to_string(seed));
    const int world = 1 + static_cast<int>(seed % 6);
    const bool lanes_overlap = seed / 2 % 2 == 1;
    const bool same_offsets = seed % 7 >= 5;
    RandomProgram program(seed, world,
                          seed % 5 == 0 ? RandomCalls::kCopies : RandomCalls::kArithmetic);
    ExpectItDoesWhatItMeans(
        program, world, seed % 2 == 0 ? Topology() : Topology({0, 0, 1, 1, 2, 2}),
        {.lanes_overlap = lanes_overlap, .same_offsets = same_offsets}, order,
        memory_ratios[(same_offsets ? 2 : 0) + (lanes_overlap ? 1 : 0)], &grouped);
    if (::testing::Test::HasFailure()) return;
    collectives += program.collectives();
    calls_in_chunks += program.calls_in_chunks();
  }
  EXPECT_GE(grouped, static_cast<int>(kPrograms / testing::kOneIn / 2)) << "exchanges";
  EXPECT_GE(calls_in_chunks, static_cast<int>(kPrograms / testing::kOneIn / 2));
  EXPECT_GE(collectives, static_cast<int>(kPrograms / testing::kOneIn)) << "one in each, or so";
  // What docs/plans.md says of memory.
  for (size_t i = 0; i < memory_ratios.size(); ++i) {
    std::vector<double>& ratios = memory_ratios[i];
    std::sort(ratios.begin(), ratios.end());
    std::printf("memory against the liveness bound%s%s: median %.3f, worst %.3f of %zu\n",
                i % 2 == 1 ? ", lanes overlap" : "", i >= 2 ? ", same offsets" : "",
                ratios[ratios.size() / 2], ratios.back(), ratios.size());
    const bool is_planned_alone = i < 2;
    if (is_planned_alone) {
      EXPECT_LE(ratios[ratios.size() / 2], 1.1);
    }
  }
  // The bound is that of steps one after the other; what overlaps may need more.
  EXPECT_LE(memory_ratios[0].back(), 1.3);
}

// Where what ranks pass to collectives lies in their arenas: by the collective's number, and
// whether it is sent or received.
using PassedOffsets = std::map<std::pair<int, bool>, std::set<int64_t>>;

void AddPassed(const ProgramSteps& steps, PassedOffsets* offsets) {
  const auto add = [&](int number, bool is_sent, const Span& span) {
    const StepBuffer& buffer = steps.buffers[static_cast<size_t>(span.buffer)];
    const StepBuffer& root = steps.buffers[static_cast<size_t>(steps.RootOf(span.buffer))];
    if (span.count == 0 || root.home != StepBuffer::Home::kArena) return;
    const int64_t inside = buffer.home == StepBuffer::Home::kInside ? buffer.offset : 0;
    const auto size = static_cast<int64_t>(SizeOf(buffer.dtype));
    (*offsets)[{number, is_sent}].insert(root.arena_offset + (inside + span.offset) * size);
  };
  for (const ProgramStep& step : steps.steps) {
    const auto* const collective = std::get_if<CollectiveStep>(&step.what);
    if (collective == nullptr) continue;
    add(collective->number, true, collective->send);
    add(collective->number, false, collective->recv);
  }
}

TEST(ProgramSweepTest, WhatCollectivesTouchIsAtTheSameOffsetOnAllRanks) {
  constexpr uint32_t kPrograms = 400;
  constexpr int kWorld = 4;
  // How many places are passed to collectives, and how many of them are the same on all ranks;
  // where each rank has offsets of its own, and so.
  std::array<int, 2> same = {0, 0};
  int all = 0;
  std::array<int64_t, 2> most_bytes = {0, 0};  // of the largest rank of each program: else, and so
  for (uint32_t seed = 0; seed < kPrograms; seed += testing::kOneIn) {
    SCOPED_TRACE("program " + std::to_string(seed));
    RandomProgram random(seed, kWorld, RandomCalls::kCopies);
    const StatusOr<Program> built = random.Build();
    ASSERT_TRUE(built.ok()) << built.status();
    const auto lowered =
        LowerProgram(std::make_shared<const Program>(*built), Topology(), CostModel());
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    std::array<PassedOffsets, 2> passed;
    std::map<size_t, std::set<int64_t>> values;  // offsets, by the value
    std::set<int64_t> arena_bytes;
    int64_t bytes_else = 0;
    for (Rank rank = 0; rank < kWorld; ++rank) {
      const ProgramSteps steps = ExpandProgram(*lowered, rank, {.same_offsets = true});
      const ProgramSteps steps_else = ExpandProgram(*lowered, rank);
      AddPassed(steps_else, &passed[0]);
      AddPassed(steps, &passed[1]);
      const size_t num_values = lowered->program->values().size();
      for (size_t i = 0; i < num_values; ++i) {
        const StepBuffer& buffer = steps.buffers[i];
        if (buffer.home == StepBuffer::Home::kArena) values[i].insert(buffer.arena_offset);
      }
      if (!steps.steps.empty()) arena_bytes.insert(steps.arena_bytes);
      bytes_else = std::max(bytes_else, steps_else.arena_bytes);
    }
    for (const auto& [value, offsets] : values) EXPECT_EQ(offsets.size(), 1U) << "value " << value;
    EXPECT_LE(arena_bytes.size(), 1U) << "an arena is as large on all ranks";
    most_bytes[0] += bytes_else;
    most_bytes[1] += arena_bytes.empty() ? 0 : *arena_bytes.begin();
    all += static_cast<int>(passed[0].size());
    for (size_t i = 0; i < passed.size(); ++i) {
      for (const auto& [which, offsets] : passed[i]) same[i] += offsets.size() == 1 ? 1 : 0;
    }
  }
  std::printf(
      "same offsets: %d of %d that are passed to collectives (else %d), arenas %.3f times as "
      "large\n",
      same[1], all, same[0],
      static_cast<double>(most_bytes[1]) / static_cast<double>(most_bytes[0]));
  EXPECT_GE(same[1], all * 9 / 10);
  EXPECT_LE(most_bytes[1], most_bytes[0] * 3 / 2);
  EXPECT_GE(all, static_cast<int>(kPrograms / testing::kOneIn));
}

}  // namespace
}  // namespace lockstep::plan
