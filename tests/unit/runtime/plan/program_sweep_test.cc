// Random programs, executed by the simulator, against what they mean for whole tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/plan/program.h"
#include "runtime/plan/program_lowering.h"
#include "runtime/plan/program_steps.h"
#include "runtime/plan/simulator.h"
#include "tests/unit/runtime/plan/reshard_check.h"

namespace lockstep::plan {
namespace {

// Linear, so that what they do to partial sums they do to the sum.
void AddTwice(int32_t& to, int32_t a, int32_t b) { to = a + 2 * b; }
constexpr int32_t kScale = 3;
constexpr int32_t kNegate = -1;

// A program beside the tensors that it means.
class RandomProgram {
 public:
  RandomProgram(uint32_t seed, int world) : random_(seed), world_(world) {
    shape_ = Shape({1 + Below(7), Below(6), 1 + Below(3)});
    at_rank_0_ = *Layout::Make(shape_, DType::kInt32, *Mesh::Line({0}), {Placement::Replicate()});
    for (const char* const name : {"a", "b"}) {
      std::vector<int32_t> whole;
      for (int64_t i = 0; i < shape_.NumElements(); ++i) whole.push_back(Below(1000));
      inputs_.push_back(whole);
      Hold(builder_.Input(name, at_rank_0_), whole);
    }
    for (int i = 0; i < 14; ++i) AddOp();
    for (int i = 0; i < 3; ++i) AddOutput("out" + std::to_string(i));
  }

  // Runs it on all ranks, as `topology` has them, and compares the outputs.
  void Check(const Topology& topology) {
    const StatusOr<Program> built = builder_.Build();
    ASSERT_TRUE(built.ok()) << built.status();
    const auto lowered =
        LowerProgram(std::make_shared<const Program>(*built), topology, CostModel());
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    std::map<Rank, SimulatedRank> ranks;
    for (Rank rank = 0; rank < world_; ++rank) {
      ranks[rank].program = ExpandProgram(*lowered, rank);
      ranks[rank].Allocate();
      // Whatever was there before: nothing may depend on it.
      std::fill(ranks[rank].arena.begin(), ranks[rank].arena.end(), std::byte{0x5A});
      const ProgramSteps& steps = ranks[rank].program;
      EXPECT_GE(steps.arena_bytes, steps.arena_bytes_bound);
      EXPECT_LE(steps.arena_bytes, steps.arena_bytes_apart);
      if (steps.arena_bytes_bound == 0) continue;
      memory_ratios_.push_back(static_cast<double>(steps.arena_bytes) /
                               static_cast<double>(steps.arena_bytes_bound));
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      std::memcpy(ranks[0].At(static_cast<int>(i)), inputs_[i].data(),
                  inputs_[i].size() * sizeof(int32_t));
    }
    const Status status = Simulate(ranks, [&](Rank, const CallStep& step, SimulatedRank& rank) {
      return Call(*built, step, rank);
    });
    ASSERT_TRUE(status.ok()) << status;
    for (const ValueId id : built->outputs()) {
      const std::vector<int32_t>& expected = values_.at(id);
      const auto* const found = reinterpret_cast<const int32_t*>(ranks[0].At(static_cast<int>(id)));
      EXPECT_EQ(std::vector<int32_t>(found, found + expected.size()), expected)
          << built->value(id).name;
    }
  }
  const std::vector<double>& memory_ratios() const { return memory_ratios_; }

 private:
  int Below(int end) { return static_cast<int>(random_() % static_cast<uint32_t>(end)); }

  Layout AnyLayout() {
    std::vector<Rank> ranks(static_cast<size_t>(world_));
    for (int i = 0; i < world_; ++i) ranks[static_cast<size_t>(i)] = i;
    std::shuffle(ranks.begin(), ranks.end(), random_);
    const bool is_square = world_ >= 4 && Below(2) == 0;
    ranks.resize(is_square ? 4 : static_cast<size_t>(1 + Below(world_)));
    const auto size = static_cast<int>(ranks.size());
    const Mesh mesh =
        is_square ? *Mesh::Make({{"x", 2}, {"y", 2}}, ranks) : *Mesh::Make({{"x", size}}, ranks);
    std::vector<Placement> placements;
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      const int kind = Below(5);
      placements.push_back(kind == 0   ? Placement::Replicate()
                           : kind == 4 ? Placement::Partial(Reduction::kSum)
                                       : Placement::Shard(kind - 1));
    }
    return *Layout::Make(shape_, DType::kInt32, mesh, placements);
  }

  void Hold(ValueId id, std::vector<int32_t> whole) {
    values_[id] = std::move(whole);
    layouts_.resize(std::max(layouts_.size(), static_cast<size_t>(id) + 1), at_rank_0_);
    known_.push_back(id);
  }
  void HoldWith(ValueId id, std::vector<int32_t> whole, const Layout& layout) {
    Hold(id, std::move(whole));
    layouts_[static_cast<size_t>(id)] = layout;
  }
  const Layout& LayoutOf(ValueId id) const { return layouts_[static_cast<size_t>(id)]; }
  ValueId Any() { return known_[static_cast<size_t>(Below(static_cast<int>(known_.size())))]; }
  std::vector<int32_t> Scaled(ValueId id, int32_t by) {
    std::vector<int32_t> scaled = values_.at(id);
    for (int32_t& element : scaled) element *= by;
    return scaled;
  }

  void AddOp() {
    const ValueId a = Any();
    const Layout layout = LayoutOf(a);
    switch (Below(6)) {
      case 0: {
        std::vector<ValueId> like;
        for (const ValueId id : known_) {
          if (LayoutOf(id) == layout) like.push_back(id);
        }
        const ValueId b = like[static_cast<size_t>(Below(static_cast<int>(like.size())))];
        const ValueId c = builder_.Make(layout);
        builder_.Call("add_twice", {Read(a), Read(b), Write(c)});
        std::vector<int32_t> sum = values_.at(a);
        for (size_t i = 0; i < sum.size(); ++i) AddTwice(sum[i], sum[i], values_.at(b)[i]);
        return HoldWith(c, std::move(sum), layout);
      }
      case 1:
        builder_.Call("scale", {Update(a)});
        values_[a] = Scaled(a, kScale);
        return;
      case 2:
        return HoldWith(builder_.Call("negate", {Read(a)}, layout), Scaled(a, kNegate), layout);
      default: {
        const Layout to = Below(4) == 0 ? layout : AnyLayout();
        return HoldWith(builder_.Reshard(a, to), values_.at(a), to);
      }
    }
  }

  void AddOutput(const std::string& name) {
    const ValueId a = Any();
    const ValueId out = builder_.Reshard(a, at_rank_0_);
    values_[out] = values_.at(a);
    builder_.Output(name, out);
  }

  static Status Call(const Program& program, const CallStep& step, SimulatedRank& rank) {
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
      if (name == "add_twice") AddTwice(tiles[2][i], tiles[0][i], tiles[1][i]);
      if (name == "scale") tiles[0][i] *= kScale;
      if (name == "negate") result[i] = kNegate * tiles[0][i];
    }
    return OkStatus();
  }

  std::mt19937 random_;
  const int world_;
  Shape shape_;
  Layout at_rank_0_ = *Layout::Make({}, DType::kInt32, *Mesh::Line({0}), {Placement::Replicate()});
  ProgramBuilder builder_;
  std::vector<std::vector<int32_t>> inputs_;
  std::map<ValueId, std::vector<int32_t>> values_;  // whole
  std::vector<Layout> layouts_;                     // by value
  std::vector<ValueId> known_;
  std::vector<double> memory_ratios_;
};

TEST(ProgramSweepTest, RandomProgramsDoWhatTheyMean) {
  constexpr uint32_t kPrograms = 1500;
  std::vector<double> ratios;
  for (uint32_t seed = 0; seed < kPrograms; seed += testing::kOneIn) {
    SCOPED_TRACE("program " + std::to_string(seed));
    const int world = 1 + static_cast<int>(seed % 6);
    RandomProgram program(seed, world);
    program.Check(seed % 2 == 0 ? Topology() : Topology({0, 0, 1, 1, 2, 2}));
    if (HasFatalFailure() || HasNonfatalFailure()) return;
    ratios.insert(ratios.end(), program.memory_ratios().begin(), program.memory_ratios().end());
  }
  // What docs/plans.md says of memory.
  std::sort(ratios.begin(), ratios.end());
  std::printf("memory against the liveness bound: median %.3f, worst %.3f of %zu\n",
              ratios[ratios.size() / 2], ratios.back(), ratios.size());
  EXPECT_LE(ratios[ratios.size() / 2], 1.1);
  EXPECT_LE(ratios.back(), 1.3);
}

}  // namespace
}  // namespace lockstep::plan
