#include "tests/support/random_program.h"

#include <cstddef>
#include <utility>

#include "runtime/plan/box.h"
#include "runtime/plan/collective.h"

namespace lockstep::support {

using plan::Box;
using plan::Collective;
using plan::CollectiveLayouts;
using plan::Placement;

int32_t Plus(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
int32_t Times(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

namespace {

constexpr char kCopy[] = "lockstep.copy";

// Of the members whose tiles are replicas, or were partial values of the same, the first.
bool IsOneOfMany(const plan::Layout& from, const plan::Layout& to, int index) {
  for (int axis = 0; axis < to.mesh().num_axes(); ++axis) {
    const Placement& now = to.placement(axis);
    const bool is_taken =
        now.is_shard() || (now.is_partial() && !from.placement(axis).is_partial());
    if (!is_taken && to.mesh().Coordinate(index, axis) != 0) return false;
  }
  return true;
}

// Where the element with this number of a dense box lies in the whole tensor.
size_t PlaceIn(const Shape& whole, const Box& box, int64_t number) {
  int64_t place = 0;
  int64_t stride = 1;
  for (int d = box.ndim() - 1; d >= 0; --d) {
    place += (box.begin[d] + number % box.extents[d]) * stride;
    number /= box.extents[d];
    stride *= whole[d];
  }
  return static_cast<size_t>(place);
}

}  // namespace

RandomProgram::RandomProgram(uint32_t seed, int world, RandomCalls calls)
    : any_(seed), world_(world), calls_(calls) {
  const Shape shape({1 + Below(7), Below(6), 1 + Below(3)});
  for (const char* const name : {"a", "b"}) {
    std::vector<int32_t> whole;
    for (int64_t i = 0; i < shape.NumElements(); ++i) whole.push_back(Below(1000));
    inputs_[name] = {shape, whole};
    Hold(builder_.Input(name, AtRank0(shape)), std::move(whole), AtRank0(shape));
  }
  for (int i = 0; i < 20; ++i) AddOp();
  for (int i = 0; i < 3; ++i) AddOutput("out" + std::to_string(i));
  for (int i = 0; i < 2 && seed % 2 == 0; ++i) AddCallInChunks("chunks" + std::to_string(i));
  if (seed % 2 == 1) AddSimilarReshards("similar");
}

plan::Layout RandomProgram::AnyLayout(const Shape& shape) {
  return any_.AnyLayout(shape, any_.AnyMesh(world_), Reduction::kSum);
}

plan::Layout RandomProgram::AtRank0(const Shape& shape) {
  return *Layout::Make(shape, DType::kInt32, *plan::Mesh::Line({0}), {Placement::Replicate()});
}

void RandomProgram::Hold(ValueId id, std::vector<int32_t> whole, const Layout& layout) {
  values_[id] = std::move(whole);
  layouts_.insert_or_assign(id, layout);
  known_.push_back(id);
}

plan::ValueId RandomProgram::AnyLike(ValueId id) {
  std::vector<ValueId> like;
  for (const ValueId other : known_) {
    if (LayoutOf(other) == LayoutOf(id)) like.push_back(other);
  }
  return like[static_cast<size_t>(Below(static_cast<int>(like.size())))];
}

std::vector<int32_t> RandomProgram::Scaled(ValueId id, int32_t by) const {
  std::vector<int32_t> scaled = values_.at(id);
  for (int32_t& element : scaled) element = Times(element, by);
  return scaled;
}

void RandomProgram::AddOp() {
  const ValueId a = Any();
  const Layout layout = LayoutOf(a);
  switch (Below(12)) {
    case 0:
      return AddCallWithResultIn(a);
    case 1:
      return AddCallInPlace(a);
    case 2:
      return AddCallThatReturns(a);
    case 3:
      return Hold(builder_.Copy(a), values_.at(a), layout);
    case 4:
      return AddView(a);
    case 5:
    case 6:
      return AddCollective(a);
    default: {
      const Layout to = Below(4) == 0 ? layout : AnyLayout(layout.shape());
      return Hold(builder_.Reshard(a, to), values_.at(a), to);
    }
  }
}

void RandomProgram::AddCallWithResultIn(ValueId a) {
  const ValueId b = AnyLike(a);
  const ValueId c = builder_.Make(LayoutOf(a));
  std::vector<int32_t> result = values_.at(a);
  if (calls_ == RandomCalls::kCopies) {
    builder_.Call(kCopy, {plan::Read(a), plan::Write(c)});
  } else {
    builder_.Call("add_twice", {plan::Read(a), plan::Read(b), plan::Write(c)});
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] = Plus(result[i], Times(2, values_.at(b)[i]));
    }
  }
  Hold(c, std::move(result), LayoutOf(a));
}

void RandomProgram::AddCallInPlace(ValueId a) {
  if (calls_ == RandomCalls::kArithmetic) {
    builder_.Call("scale", {plan::Update(a)});
    values_[a] = Scaled(a, kScale);
    return;
  }
  const ValueId over = AnyLike(a);
  if (over == a) return;
  builder_.Call(kCopy, {plan::Read(a), plan::Write(over)});
  values_[over] = values_.at(a);
}

void RandomProgram::AddCallThatReturns(ValueId a) {
  const bool copies = calls_ == RandomCalls::kCopies;
  const Layout layout = LayoutOf(a);
  Hold(builder_.Call(copies ? kCopy : "negate", {plan::Read(a)}, layout),
       copies ? values_.at(a) : Scaled(a, kNegate), layout);
}

// Another placement along one axis, or the ranks at one coordinate of it: with each tile as it is.
void RandomProgram::AddView(ValueId a) {
  const Layout from = LayoutOf(a);
  const int axis = Below(from.mesh().num_axes());
  const Placement old = from.placement(axis);
  // What each rank has of partial values is not defined.
  if (old.is_partial()) return;
  if (old.is_replicate() && Below(3) == 0) {
    const Layout to = *from.On(from.mesh().At(axis, Below(from.mesh().AxisSize(axis))));
    return Hold(builder_.As(a, to), Retaken(a, to), to);
  }
  Shape shape = from.shape();
  std::vector<Placement> placements = from.placements();
  const bool is_stacked = Below(2) == 0 && shape.NumElements() < 2000;
  const int dim = Below(shape.ndim());
  if (old.is_shard()) shape[old.dim] /= from.mesh().AxisSize(axis);
  if (is_stacked) shape[dim] *= from.mesh().AxisSize(axis);
  placements[static_cast<size_t>(axis)] =
      is_stacked ? Placement::Shard(dim) : Placement::Partial(Reduction::kSum);
  // Refused where another axis has given extents along the dimension.
  const StatusOr<Layout> to = Layout::Make(shape, DType::kInt32, from.mesh(), placements);
  if (to.ok() && CheckSameTiles(from, *to).ok()) {
    Hold(builder_.As(a, *to), Retaken(a, *to), *to);
  }
}

void RandomProgram::AddCollective(ValueId a) {
  const Layout from = LayoutOf(a);
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
  Hold(builder_.Do(collective, a), Retaken(a, layouts->taken_as), layouts->result);
}

// The tensor that the tiles of `a` are in another layout: each tile is where that says, once, or
// added to those that it is partial with.
std::vector<int32_t> RandomProgram::Retaken(ValueId a, const Layout& to) const {
  const Layout& from = LayoutOf(a);
  const std::vector<int32_t>& old = values_.at(a);
  std::vector<int32_t> whole(static_cast<size_t>(to.shape().NumElements()), 0);
  for (int index = 0; index < to.mesh().size(); ++index) {
    const int old_index = *from.mesh().IndexOf(to.mesh().RankAt(index));
    if (!IsOneOfMany(from, to, index)) continue;
    const Box old_tile = from.TileAt(old_index);
    const Box tile = to.TileAt(index);
    for (int64_t i = 0; i < tile.NumElements(); ++i) {
      int32_t& element = whole[PlaceIn(to.shape(), tile, i)];
      element = Plus(element, old[PlaceIn(from.shape(), old_tile, i)]);
    }
  }
  return whole;
}

// One or two calls between reshards, of which there is one at least.
void RandomProgram::AddCallInChunks(const std::string& name) {
  const ValueId a = Any();
  const Layout from = LayoutOf(a);
  const bool begins_with_reshard = Below(4) != 0;
  const Layout layout = begins_with_reshard ? AnyLayout(from.shape()) : from;
  const Layout to = AnyLayout(from.shape());
  plan::Chunks chunks{.count = 2 + Below(3), .along = Below(from.shape().ndim())};
  chunks.result_along = chunks.along;
  const bool ends_with_reshard = !begins_with_reshard || Below(3) != 0;
  // Not all that several axes shard together can be cut.
  std::vector<plan::LayoutAlong> layouts = {{&layout, chunks.along}};
  if (begins_with_reshard) layouts.push_back({&from, chunks.along});
  if (ends_with_reshard) layouts.push_back({&to, chunks.along});
  const plan::Cut cut(chunks.count, layouts);
  for (const plan::LayoutAlong& along : layouts) {
    for (int j = 0; j < cut.count(); ++j) {
      if (!cut.ChunkOf(along, j).ok()) return;
    }
  }
  const bool copies = calls_ == RandomCalls::kCopies;
  std::vector<int32_t> whole = values_.at(a);
  ValueId at = begins_with_reshard ? builder_.Reshard(a, layout) : a;
  for (int i = Below(2); i < 2; ++i) {
    at = builder_.CallInChunks(copies ? kCopy : "negate", {plan::Read(at)}, layout, chunks);
    if (copies) continue;
    for (int32_t& element : whole) element = Times(element, kNegate);
  }
  if (ends_with_reshard) at = builder_.Reshard(at, to);
  ++calls_in_chunks_;
  outputs_[name] = {from.shape(), whole};
  builder_.Output(name, builder_.Reshard(at, AtRank0(from.shape())));
}

// One after the other, between the same layouts.
void RandomProgram::AddSimilarReshards(const std::string& name) {
  const ValueId a = Any();
  const Layout to = AnyLayout(LayoutOf(a).shape());
  std::vector<std::pair<ValueId, ValueId>> reshards;
  for (int i = 0; i < 3; ++i) {
    const ValueId from = AnyLike(a);
    reshards.emplace_back(from, builder_.Reshard(from, to));
  }
  for (size_t i = 0; i < reshards.size(); ++i) {
    const auto& [from, result] = reshards[i];
    outputs_[name + std::to_string(i)] = {to.shape(), values_.at(from)};
    builder_.Output(name + std::to_string(i), builder_.Reshard(result, AtRank0(to.shape())));
  }
}

void RandomProgram::AddOutput(const std::string& name) {
  const ValueId a = Any();
  const Shape& shape = LayoutOf(a).shape();
  builder_.Output(name, builder_.Reshard(a, AtRank0(shape)));
  outputs_[name] = {shape, values_.at(a)};
}

}  // namespace lockstep::support
