// Layouts, meshes and topologies drawn at random, the same ones for a seed.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "runtime/base/reduction.h"
#include "runtime/base/shape.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/lowering/topology.h"
#include "runtime/plan/mesh.h"

namespace lockstep::support {

class RandomLayouts {
 public:
  explicit RandomLayouts(uint32_t seed) : random_(seed), random_extents_(seed) {}

  int Below(int end) { return static_cast<int>(random_() % static_cast<uint32_t>(end)); }

  // Up to three dimensions of up to 9, or with much more in them.
  Shape AnyShape(bool large);

  // Up to three axes over some of the ranks below `world`, in any order.
  plan::Mesh AnyMesh(int world);

  // Of int32, with shards most of all; some axes that shard a dimension alone have given extents.
  // These come from random numbers of their own, so that all else is as it would be without them.
  plan::Layout AnyLayout(const Shape& shape, const plan::Mesh& mesh, Reduction op);

  // Up to four nodes: mostly of ranks in a row, sometimes of any.
  plan::Topology AnyTopology(int world);

 private:
  // That add up to `count`; often with some that are 0.
  std::vector<int64_t> AnyExtents(int64_t count, int size);

  std::mt19937 random_;
  std::mt19937 random_extents_;
};

}  // namespace lockstep::support
