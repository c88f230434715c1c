// Random programs, executed by the simulator, against what they mean for whole tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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

// As the simulator's reductions, and functions on tensors of integers: they wrap.
int32_t Plus(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
int32_t Times(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

// Linear, so that what they do to partial sums they do to the sum.
void AddTwice(int32_t& to, int32_t a, int32_t b) { to = Plus(a, Times(2, b)); }
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
    for (int i = 0; i < 20; ++i) AddOp();
    for (int i = 0; i < 3; ++i) AddOutput("out" + std::to_string(i));
  }

  // Runs it on all ranks, as `topology` has them, and compares the outputs. If the lanes of each
  // rank overlap, its steps are done in any order that they allow.
  void Check(const Topology& topology, bool lanes_overlap) {
    const StatusOr<Program> built = builder_.Build();
    ASSERT_TRUE(built.ok()) << built.status();
    const auto lowered =
        LowerProgram(std::make_shared<const Program>(*built), topology, CostModel());
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    std::map<Rank, SimulatedRank> ranks;
    for (Rank rank = 0; rank < world_; ++rank) {
      ranks[rank].program = ExpandProgram(*lowered, rank, {.lanes_overlap = lanes_overlap});
      if (lanes_overlap) Interleave(&ranks[rank].program.steps);
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
  int collectives() const { return collectives_; }

 private:
  int Below(int end) { return static_cast<int>(random_() % static_cast<uint32_t>(end)); }

  Layout AnyLayout(const Shape& shape) {
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
    return *Layout::Make(shape, DType::kInt32, mesh, placements);
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
    for (int32_t& element : scaled) element = Times(element, by);
    return scaled;
  }

  void AddOp() {
    const ValueId a = Any();
    const Layout layout = LayoutOf(a);
    switch (Below(12)) {
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
      case 3:
        return HoldWith(builder_.Copy(a), values_.at(a), layout);
      case 4:
        return AddView(a);
      case 5:
      case 6:
        return AddCollective(a);
      default: {
        const Layout to = Below(4) == 0 ? layout : AnyLayout(layout.shape());
        return HoldWith(builder_.Reshard(a, to), values_.at(a), to);
      }
    }
  }

  // Another placement along one axis, or the ranks at one coordinate of it: with each tile as it
  // is.
  void AddView(ValueId a) {
    const Layout& from = LayoutOf(a);
    const int axis = Below(from.mesh().num_axes());
    const Placement old = from.placement(axis);
    // What each rank has of partial values is not defined.
    if (old.is_partial()) return;
    if (old.is_replicate() && Below(3) == 0) {
      const Layout to = *from.On(from.mesh().At(axis, Below(from.mesh().AxisSize(axis))));
      return HoldWith(builder_.As(a, to), Retaken(a, to), to);
    }
    Shape shape = from.shape();
    std::vector<Placement> placements = from.placements();
    const bool is_stacked = Below(2) == 0 && shape.NumElements() < 2000;
    const int dim = Below(shape.ndim());
    if (old.is_shard()) shape[old.dim] /= from.mesh().AxisSize(axis);
    if (is_stacked) shape[dim] *= from.mesh().AxisSize(axis);
    placements[static_cast<size_t>(axis)] =
        is_stacked ? Placement::Shard(dim) : Placement::Partial(Reduction::kSum);
    const Layout to = *Layout::Make(shape, DType::kInt32, from.mesh(), placements);
    if (CheckSameTiles(from, to).ok()) HoldWith(builder_.As(a, to), Retaken(a, to), to);
  }

  void AddCollective(ValueId a) {
    const Layout& from = LayoutOf(a);
    const int axis = Below(from.mesh().num_axes());
    constexpr OperationKind kKinds[] = {OperationKind::kAllReduce, OperationKind::kReduceScatter,
                                        OperationKind::kAllGather, OperationKind::kAllToAll,
                                        OperationKind::kBroadcast};
    const Collective collective{.kind = kKinds[Below(5)],
                                .axis = from.mesh().axes()[static_cast<size_t>(axis)].name,
                                .dim = Below(from.shape().ndim()),
                                .root = Below(from.mesh().AxisSize(axis))};
    const bool is_broadcast = collective.kind == OperationKind::kBroadcast;
    if (is_broadcast && from.placement(axis).is_partial()) return;
    const StatusOr<CollectiveLayouts> layouts = LayoutsOf(collective, from);
    if (!layouts.ok()) return;
    ++collectives_;
    HoldWith(builder_.Do(collective, a), Retaken(a, layouts->taken_as), layouts->result);
  }

  // The tensor that the tiles of `a` are in another layout: each tile is where that says, once, or
  // added to those that it is partial with.
  std::vector<int32_t> Retaken(ValueId a, const Layout& to) const {
    const Layout& from = LayoutOf(a);
    const std::vector<int32_t>& old = values_.at(a);
    std::vector<int32_t> whole(static_cast<size_t>(to.shape().NumElements()), 0);
    for (int index = 0; index < to.mesh().size(); ++index) {
      const int old_index = *from.mesh().IndexOf(to.mesh().RankAt(index));
      if (!IsOneOfMany(from, to, index)) continue;
      const Box old_tile = from.TileAt(old_index);
      const Box tile = to.TileAt(index);
      const CopyStep copy{0,
                          0,
                          WindowOf(old_tile, WholeBox(from.shape())),
                          WindowOf(tile, WholeBox(to.shape())),
                          tile.extents,
                          0,
                          tile.NumElements()};
      ForEachRun(copy, [&](int64_t at, int64_t target, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          int32_t& element = whole[static_cast<size_t>(target + i)];
          element = Plus(element, old[static_cast<size_t>(at + i)]);
        }
      });
    }
    return whole;
  }
  // Of the members whose tiles are replicas, or were partial values of the same, the first.
  static bool IsOneOfMany(const Layout& from, const Layout& to, int index) {
    for (int axis = 0; axis < to.mesh().num_axes(); ++axis) {
      const Placement now = to.placement(axis);
      const bool is_taken =
          now.is_shard() || (now.is_partial() && !from.placement(axis).is_partial());
      if (!is_taken && to.mesh().Coordinate(index, axis) != 0) return false;
    }
    return true;
  }

  void AddOutput(const std::string& name) {
    const ValueId a = Any();
    const Layout at_rank_0 = *Layout::Make(LayoutOf(a).shape(), DType::kInt32, *Mesh::Line({0}),
                                           {Placement::Replicate()});
    const ValueId out = builder_.Reshard(a, at_rank_0);
    values_[out] = values_.at(a);
    builder_.Output(name, out);
  }

  // Puts the steps of the two lanes into an order that they allow: one lane first as far as it can,
  // or either by chance.
  void Interleave(std::vector<ProgramStep>* steps) {
    std::array<std::vector<int>, 2> lanes;
    for (size_t i = 0; i < steps->size(); ++i) {
      lanes[static_cast<size_t>((*steps)[i].lane)].push_back(static_cast<int>(i));
    }
    std::array<size_t, 2> next = {0, 0};
    const int favourite = Below(3);  // 2: none
    std::vector<ProgramStep> order;
    while (order.size() < steps->size()) {
      size_t lane = static_cast<size_t>(favourite < 2 ? favourite : Below(2));
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
      if (name == "scale") tiles[0][i] = Times(tiles[0][i], kScale);
      if (name == "negate") result[i] = Times(kNegate, tiles[0][i]);
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
  int collectives_ = 0;
};

TEST(ProgramSweepTest, RandomProgramsDoWhatTheyMean) {
  constexpr uint32_t kPrograms = 1500;
  std::array<std::vector<double>, 2> memory_ratios;  // without lanes that overlap, and with them
  int collectives = 0;
  for (uint32_t seed = 0; seed < kPrograms; seed += testing::kOneIn) {
    SCOPED_TRACE("program " + std::to_string(seed));
    const int world = 1 + static_cast<int>(seed % 6);
    RandomProgram program(seed, world);
    const bool lanes_overlap = seed / 2 % 2 == 1;
    program.Check(seed % 2 == 0 ? Topology() : Topology({0, 0, 1, 1, 2, 2}), lanes_overlap);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
    collectives += program.collectives();
    std::vector<double>& ratios = memory_ratios[lanes_overlap ? 1 : 0];
    ratios.insert(ratios.end(), program.memory_ratios().begin(), program.memory_ratios().end());
  }
  EXPECT_GE(collectives, static_cast<int>(kPrograms / testing::kOneIn)) << "one in each, or so";
  // What docs/plans.md says of memory.
  for (std::vector<double>& ratios : memory_ratios) {
    std::sort(ratios.begin(), ratios.end());
    std::printf("memory against the liveness bound%s: median %.3f, worst %.3f of %zu\n",
                &ratios == &memory_ratios[1] ? ", lanes overlap" : "", ratios[ratios.size() / 2],
                ratios.back(), ratios.size());
    EXPECT_LE(ratios[ratios.size() / 2], 1.1);
  }
  // The bound is that of steps one after the other; what overlaps may need more.
  EXPECT_LE(memory_ratios[0].back(), 1.3);
}

}  // namespace
}  // namespace lockstep::plan
