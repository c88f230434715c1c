// Mesh: ranks in an n-dimensional array with named axes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace lockstep::plan {

struct MeshAxis {
  std::string name;
  int size = 1;
  bool operator==(const MeshAxis&) const = default;
};

// Any ranks of the world, in any order, each once. A member's *index* is its place in row-major
// order: along the last axis, neighbours are neighbours in ranks().
//
// Immutable; copies share one state, so they are cheap. Threads: any.
class Mesh {
 public:
  static constexpr int kMaxAxes = 8;
  static constexpr int kMaxRanks = 1 << 16;

  // kInvalidArgument: no axes or too many, a name that is empty or used twice, a size below 1, a
  // rank that is negative or named twice, or not as many ranks as the sizes multiply to.
  static StatusOr<Mesh> Make(std::vector<MeshAxis> axes, std::vector<Rank> ranks);
  // One axis over these ranks.
  static StatusOr<Mesh> Line(std::vector<Rank> ranks, std::string name = "x");

  int num_axes() const { return static_cast<int>(state_->axes.size()); }
  const std::vector<MeshAxis>& axes() const { return state_->axes; }
  int AxisSize(int axis) const { return state_->axes[static_cast<size_t>(axis)].size; }
  std::optional<int> FindAxis(std::string_view name) const;

  int size() const { return static_cast<int>(state_->ranks.size()); }
  // In the order of their indices.
  absl::Span<const Rank> ranks() const { return state_->ranks; }
  std::vector<Rank> SortedRanks() const;
  Rank RankAt(int index) const { return state_->ranks[static_cast<size_t>(index)]; }
  // Empty if the rank is not a member.
  std::optional<int> IndexOf(Rank rank) const;

  // Where the member with this index stands along `axis`.
  int Coordinate(int index, int axis) const {
    return index / state_->strides[static_cast<size_t>(axis)] % AxisSize(axis);
  }
  // The indices of the members that differ from this one in their coordinates along `axes` only
  // (ascending axes), itself among them, in row-major order of these coordinates.
  std::vector<int> Slice(int index, absl::Span<const int> axes) const;
  // All of them, by their first indices.
  std::vector<std::vector<int>> Slices(absl::Span<const int> axes) const;
  // The same members with their axes in this order: they have other indices.
  Mesh WithAxisOrder(absl::Span<const int> order) const;
  // Without the axes of one rank, but for one if there is no other.
  Mesh WithoutUnitAxes() const;
  // The members at coordinate 0 of `axes`, as a mesh whose axes have these sizes 1 instead.
  Mesh FirstAlong(absl::Span<const int> axes) const;
  // The members at this coordinate of `axis`, as a mesh whose axis has the size 1.
  Mesh At(int axis, int coordinate) const;

  // "x=2,y=2 {0, 1, 2, 3}"
  std::string ToString() const;
  bool operator==(const Mesh& other) const {
    return state_ == other.state_ ||
           (state_->axes == other.state_->axes && state_->ranks == other.state_->ranks);
  }

 private:
  struct State {
    std::vector<MeshAxis> axes;
    std::vector<Rank> ranks;
    std::vector<int> strides;  // per axis: how far neighbours along it are apart in `ranks`
    std::vector<int> by_rank;  // indices, in the order of their ranks
  };
  explicit Mesh(std::vector<MeshAxis> axes, std::vector<Rank> ranks);

  std::shared_ptr<const State> state_;
};

}  // namespace lockstep::plan
