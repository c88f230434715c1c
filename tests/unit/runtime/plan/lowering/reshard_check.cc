#include "tests/unit/runtime/plan/lowering/reshard_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/plan/steps/check_steps.h"
#include "runtime/plan/steps/program_steps.h"
#include "runtime/plan/steps/simulator.h"
#include "runtime/tensor/element.h"

namespace lockstep::plan::testing {
namespace {

Elements ElementsOf(const Box& box, const Shape& shape, const Elements& tensor) {
  Elements elements;
  const Shape strides = RowMajorStrides(shape);
  for (int64_t i = 0; i < box.NumElements(); ++i) {
    int64_t rest = i;
    int64_t at = 0;
    for (int d = box.ndim() - 1; d >= 0; --d) {
      at += (box.begin[d] + rest % box.extents[d]) * strides[d];
      rest /= box.extents[d];
    }
    elements.push_back(tensor[static_cast<size_t>(at)]);
  }
  return elements;
}

SimulatedBuffer ToBuffer(const Elements& elements, DType dtype) {
  SimulatedBuffer buffer(elements.size() * SizeOf(dtype));
  tensor::CastElements(ViewOf(elements.data(), elements.size()),
                       {buffer.data(), elements.size(), dtype});
  return buffer;
}

Elements FromBuffer(const SimulatedBuffer& buffer, DType dtype) {
  Elements elements(buffer.size() / SizeOf(dtype));
  tensor::CastElements({buffer.data(), elements.size(), dtype},
                       ViewOf(elements.data(), elements.size()));
  return elements;
}

Elements Combine(Reduction op, const std::vector<Elements>& layers) {
  Elements all = layers[0];
  for (size_t l = 1; l < layers.size(); ++l) {
    for (size_t i = 0; i < all.size(); ++i) {
      const int32_t other = layers[l][i];
      if (op == Reduction::kSum || op == Reduction::kAvg) all[i] += other;
      if (op == Reduction::kProd) all[i] *= other;
      if (op == Reduction::kMin) all[i] = std::min(all[i], other);
      if (op == Reduction::kMax) all[i] = std::max(all[i], other);
    }
  }
  if (op == Reduction::kAvg) {
    for (int32_t& element : all) element /= static_cast<int32_t>(layers.size());
  }
  return all;
}

}  // namespace

void ExpectSameTensor(const Reshard& reshard, const std::vector<Elements>& layers, int world) {
  const Layout& from = reshard.from;
  const Layout& to = reshard.to;
  const DType dtype = from.dtype();
  std::map<Rank, SimulatedRank> ranks;
  const LoweredProgram lowered = ProgramOf(reshard);
  for (Rank rank = 0; rank < world; ++rank) {
    SimulatedRank& state = ranks[rank];
    state.program = ExpandProgram(lowered, rank);
    ASSERT_EQ(CheckSteps(*lowered.program, state.program, rank), OkStatus());
    state.Allocate();
    const auto index = from.mesh().IndexOf(rank);
    if (!index.has_value()) continue;
    const Elements& layer = layers[static_cast<size_t>(from.LayerAt(*index))];
    state.own[0] = ToBuffer(ElementsOf(from.TileAt(*index), from.shape(), layer), dtype);
  }
  ASSERT_EQ(Simulate(ranks), OkStatus());
  const auto result = [&](Rank rank) {
    const StepBuffer& buffer = ranks[rank].program.buffers[1];
    const std::byte* const begin = ranks[rank].At(1);
    return FromBuffer(SimulatedBuffer(begin, begin + buffer.size_bytes()), dtype);
  };
  std::map<std::pair<int, int>, Elements> tiles;  // by layer and number
  for (int index = 0; index < to.mesh().size(); ++index) {
    const Rank rank = to.mesh().RankAt(index);
    Elements tile = result(rank);
    const auto [at, is_new] =
        tiles.try_emplace({to.LayerAt(index), to.TileNumberAt(index)}, std::move(tile));
    if (is_new) continue;
    ASSERT_EQ(at->second, result(rank)) << "rank " << rank;
  }
  // Through the dtype, so that both are what it can hold.
  const Elements expected = FromBuffer(ToBuffer(Combine(from.reduction(), layers), dtype), dtype);
  int new_layers = 1;
  for (int axis : to.PartialAxes()) new_layers *= to.mesh().AxisSize(axis);
  for (int index = 0; index < to.mesh().size(); ++index) {
    if (to.LayerAt(index) != 0) continue;
    std::vector<Elements> parts;
    for (int layer = 0; layer < new_layers; ++layer) {
      parts.push_back(tiles.at({layer, to.TileNumberAt(index)}));
    }
    const Elements whole = FromBuffer(ToBuffer(Combine(to.reduction(), parts), dtype), dtype);
    ASSERT_EQ(whole, ElementsOf(to.TileAt(index), to.shape(), expected))
        << "rank " << to.mesh().RankAt(index);
  }
}

}  // namespace lockstep::plan::testing
