// Runs a reshard on simulated ranks, and compares what they hold then with the tensor.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/sanitizers.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/lowering/reshard.h"

namespace lockstep::plan::testing {

// Of thousands of random plans, one in so many is tried. Under AddressSanitizer each takes ten
// times as long, and a few show what it looks for.
inline constexpr int kOneIn = kAddressSanitized ? 11 : 1;  // coprime to what else goes round

// A tensor's elements in row-major order, before they are converted to its dtype.
using Elements = std::vector<int32_t>;

// As many tensors as `layout` has layers, which combined are one, of `value(layer, element)`.
template <typename Value>
std::vector<Elements> MakeLayers(const Layout& layout, Value&& value) {
  int count = 1;
  for (int axis : layout.PartialAxes()) count *= layout.mesh().AxisSize(axis);
  std::vector<Elements> layers(static_cast<size_t>(count));
  for (int layer = 0; layer < count; ++layer) {
    for (int64_t i = 0; i < layout.shape().NumElements(); ++i) {
      layers[static_cast<size_t>(layer)].push_back(value(layer, i));
    }
  }
  return layers;
}

// Gives each rank of the old mesh its tile of `layers`, runs the steps of all ranks below `world`,
// and expects of the tiles of the new mesh: those of one layer are equal where they are replicas,
// and all layers combined are what `layers` are, combined.
void ExpectSameTensor(const Reshard& reshard, const std::vector<Elements>& layers, int world);

}  // namespace lockstep::plan::testing
