#include "runtime/plan/mesh.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <utility>

namespace lockstep::plan {

Mesh::Mesh(std::vector<MeshAxis> axes, std::vector<Rank> ranks) {
  State state{std::move(axes), std::move(ranks), {}, {}};
  state.strides.resize(state.axes.size());
  int stride = 1;
  for (size_t a = state.axes.size(); a-- > 0;) {
    state.strides[a] = stride;
    stride *= state.axes[a].size;
  }
  state.by_rank.resize(state.ranks.size());
  std::iota(state.by_rank.begin(), state.by_rank.end(), 0);
  std::sort(state.by_rank.begin(), state.by_rank.end(), [&](int a, int b) {
    return state.ranks[static_cast<size_t>(a)] < state.ranks[static_cast<size_t>(b)];
  });
  state_ = std::make_shared<const State>(std::move(state));
}

StatusOr<Mesh> Mesh::Make(std::vector<MeshAxis> axes, std::vector<Rank> ranks) {
  if (axes.empty() || axes.size() > kMaxAxes) {
    return InvalidArgument("a mesh has 1 to ", kMaxAxes, " axes, not ", axes.size());
  }
  int64_t product = 1;
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].name.empty()) return InvalidArgument("axis ", a, " of the mesh has no name");
    // On the wire, it would end there.
    if (axes[a].name.find('\0') != std::string::npos) {
      return InvalidArgument("the name of axis ", a, " of the mesh has a zero byte");
    }
    for (size_t b = 0; b < a; ++b) {
      if (axes[b].name != axes[a].name) continue;
      return InvalidArgument("the mesh has two axes with the name \"", axes[a].name, '"');
    }
    if (axes[a].size < 1) {
      return InvalidArgument("axis \"", axes[a].name, "\" of the mesh has the size ", axes[a].size,
                             "; the smallest is 1");
    }
    product *= axes[a].size;
    if (product > kMaxRanks) return InvalidArgument("a mesh has at most ", kMaxRanks, " ranks");
  }
  if (product != static_cast<int64_t>(ranks.size())) {
    return InvalidArgument("the axes of the mesh have ", product, " places, and ", ranks.size(),
                           " ranks are given for them");
  }
  std::vector<Rank> sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.front() < 0) return InvalidArgument("the mesh names the rank ", sorted.front());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) return InvalidArgument("the mesh names rank ", *twice, " twice");
  return Mesh(std::move(axes), std::move(ranks));
}

StatusOr<Mesh> Mesh::Line(std::vector<Rank> ranks, std::string name) {
  const int size = static_cast<int>(ranks.size());
  return Make({{std::move(name), size}}, std::move(ranks));
}

std::optional<int> Mesh::FindAxis(std::string_view name) const {
  for (int a = 0; a < num_axes(); ++a) {
    if (axes()[static_cast<size_t>(a)].name == name) return a;
  }
  return std::nullopt;
}

std::optional<int> Mesh::IndexOf(Rank rank) const {
  const auto at = std::lower_bound(state_->by_rank.begin(), state_->by_rank.end(), rank,
                                   [&](int index, Rank wanted) { return RankAt(index) < wanted; });
  if (at == state_->by_rank.end() || RankAt(*at) != rank) return std::nullopt;
  return *at;
}

std::vector<int> Mesh::Slice(int index, absl::Span<const int> axes) const {
  int first = index;
  for (int axis : axes) {
    first -= Coordinate(index, axis) * state_->strides[static_cast<size_t>(axis)];
  }
  std::vector<int> members = {first};
  for (int axis : axes) {
    std::vector<int> wider;
    wider.reserve(members.size() * static_cast<size_t>(AxisSize(axis)));
    for (int member : members) {
      for (int i = 0; i < AxisSize(axis); ++i) {
        wider.push_back(member + i * state_->strides[static_cast<size_t>(axis)]);
      }
    }
    members = std::move(wider);
  }
  return members;
}

std::vector<std::vector<int>> Mesh::Slices(absl::Span<const int> axes) const {
  std::vector<std::vector<int>> slices;
  for (int index = 0; index < size(); ++index) {
    const bool first = std::all_of(axes.begin(), axes.end(),
                                   [&](int axis) { return Coordinate(index, axis) == 0; });
    if (first) slices.push_back(Slice(index, axes));
  }
  return slices;
}

Mesh Mesh::WithAxisOrder(absl::Span<const int> order) const {
  std::vector<MeshAxis> axes;
  for (int axis : order) axes.push_back(this->axes()[static_cast<size_t>(axis)]);
  std::vector<Rank> ranks;
  ranks.reserve(state_->ranks.size());
  for (int index : Slice(0, order)) ranks.push_back(RankAt(index));
  return Mesh(std::move(axes), std::move(ranks));
}

Mesh Mesh::WithoutUnitAxes() const {
  std::vector<MeshAxis> axes;
  for (const MeshAxis& axis : this->axes()) {
    if (axis.size > 1) axes.push_back(axis);
  }
  if (axes.size() == this->axes().size()) return *this;
  if (axes.empty()) axes.push_back(this->axes().front());
  return Mesh(std::move(axes), state_->ranks);
}

Mesh Mesh::FirstAlong(absl::Span<const int> axes) const {
  std::vector<MeshAxis> fewer = this->axes();
  for (int axis : axes) fewer[static_cast<size_t>(axis)].size = 1;
  std::vector<Rank> ranks;
  for (int index = 0; index < size(); ++index) {
    const bool first = std::all_of(axes.begin(), axes.end(),
                                   [&](int axis) { return Coordinate(index, axis) == 0; });
    if (first) ranks.push_back(RankAt(index));
  }
  return Mesh(std::move(fewer), std::move(ranks));
}

Mesh Mesh::At(int axis, int coordinate) const {
  std::vector<MeshAxis> fewer = axes();
  fewer[static_cast<size_t>(axis)].size = 1;
  std::vector<Rank> ranks;
  for (int index = 0; index < size(); ++index) {
    if (Coordinate(index, axis) == coordinate) ranks.push_back(RankAt(index));
  }
  return Mesh(std::move(fewer), std::move(ranks));
}

std::vector<Rank> Mesh::SortedRanks() const {
  std::vector<Rank> sorted = state_->ranks;
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

std::string Mesh::ToString() const {
  std::ostringstream text;
  for (int a = 0; a < num_axes(); ++a) {
    text << (a == 0 ? "" : ",") << axes()[static_cast<size_t>(a)].name << '=' << AxisSize(a);
  }
  text << " {";
  for (int i = 0; i < size(); ++i) text << (i == 0 ? "" : ", ") << RankAt(i);
  text << '}';
  return text.str();
}

}  // namespace lockstep::plan
