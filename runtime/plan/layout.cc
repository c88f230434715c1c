#include "runtime/plan/layout.h"

#include <charconv>
#include <optional>
#include <sstream>
#include <utility>

namespace lockstep::plan {
namespace {

// The text between "`name`(" and ")"; empty if `text` is not of that form.
std::optional<std::string_view> ArgumentOf(std::string_view text, std::string_view name) {
  if (!text.starts_with(name) || !text.ends_with(')')) return std::nullopt;
  text.remove_prefix(name.size());
  if (!text.starts_with('(')) return std::nullopt;
  return text.substr(1, text.size() - 2);
}

}  // namespace

std::string Placement::ToString() const {
  switch (kind) {
    case Kind::kReplicate:
      return "replicate";
    case Kind::kShard:
      return "shard(" + std::to_string(dim) + ")";
    case Kind::kPartial:
      return "partial(" + std::string(Name(op)) + ")";
  }
  return "";
}

StatusOr<Placement> ParsePlacement(std::string_view text) {
  if (text == "replicate" || text == "R") return Placement::Replicate();
  for (const std::string_view name : {"shard", "S"}) {
    const std::optional<std::string_view> argument = ArgumentOf(text, name);
    if (!argument.has_value()) continue;
    int dim = 0;
    const char* const end = argument->data() + argument->size();
    const auto [at, error] = std::from_chars(argument->data(), end, dim);
    if (error != std::errc() || at != end || dim < 0) {
      return InvalidArgument("\"", text, "\" does not name a dimension; write shard(0), say");
    }
    return Placement::Shard(dim);
  }
  for (const std::string_view name : {"partial", "P"}) {
    const std::optional<std::string_view> argument = ArgumentOf(text, name);
    if (!argument.has_value()) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(const Reduction op, ParseReduction(*argument));
    return Placement::Partial(op);
  }
  return InvalidArgument("unknown placement \"", text,
                         "\"; the placements are replicate, shard(DIMENSION), partial(REDUCTION)");
}

Layout::Layout(const Shape& shape, DType dtype, Mesh mesh, std::vector<Placement> placements)
    : shape_(shape),
      dtype_(dtype),
      mesh_(std::move(mesh)),
      placements_(std::move(placements)),
      largest_tile_(TileAt(0)) {}

StatusOr<Layout> Layout::Make(const Shape& shape, DType dtype, Mesh mesh,
                              std::vector<Placement> placements) {
  LOCKSTEP_RETURN_IF_ERROR(shape.Validate(SizeOf(dtype)));
  if (shape.NumElements() > kMaxBytes / static_cast<int64_t>(SizeOf(dtype))) {
    return InvalidArgument("a tensor of shape ", shape,
                           " is too large for a layout: the largest has ", kMaxBytes, " bytes");
  }
  if (static_cast<int>(placements.size()) != mesh.num_axes()) {
    return InvalidArgument("the mesh ", mesh.ToString(), " has ", mesh.num_axes(), " axes, and ",
                           placements.size(), " placements are given for them");
  }
  std::optional<Placement> partial;
  for (size_t a = 0; a < placements.size(); ++a) {
    const Placement& placement = placements[a];
    const std::string& axis = mesh.axes()[a].name;
    if (placement.is_shard() && (placement.dim < 0 || placement.dim >= shape.ndim())) {
      return InvalidArgument("axis \"", axis, "\" shards dimension ", placement.dim,
                             " of a tensor of shape ", shape, ", which has the dimensions 0 to ",
                             shape.ndim() - 1);
    }
    if (!placement.is_partial()) continue;
    if (!IsArithmetic(dtype) || (dtype == DType::kBool && placement.op == Reduction::kAvg)) {
      return InvalidArgument("axis \"", axis, "\" has partial values to be combined by ",
                             placement.op, ", which is not defined for ", dtype);
    }
    if (partial.has_value() && partial->op != placement.op) {
      return InvalidArgument("axis \"", axis, "\" has partial values for ", placement.op,
                             ", another one for ", partial->op,
                             ": which of them comes first would change the result; reshard one of "
                             "them to replicate or shard before");
    }
    partial = placement;
  }
  return Layout(shape, dtype, std::move(mesh), std::move(placements));
}

Layout Layout::WithoutUnitAxes() const {
  std::vector<Placement> placements;
  for (int a = 0; a < mesh_.num_axes(); ++a) {
    if (mesh_.AxisSize(a) > 1) placements.push_back(placement(a));
  }
  if (placements.empty()) placements.push_back(Placement::Replicate());
  return Layout(shape_, dtype_, mesh_.WithoutUnitAxes(), std::move(placements));
}

Box Layout::TileAt(int index) const {
  Box tile = WholeBox(shape_);
  for (int a = 0; a < mesh_.num_axes(); ++a) {
    if (!placement(a).is_shard()) continue;
    const int d = placement(a).dim;
    const Part part = EvenPart(tile.extents[d], mesh_.AxisSize(a), mesh_.Coordinate(index, a));
    tile.begin[d] += part.begin;
    tile.extents[d] = part.count;
  }
  return tile;
}

int Layout::LayerAt(int index) const {
  int layer = 0;
  for (int a = 0; a < mesh_.num_axes(); ++a) {
    if (!placement(a).is_partial()) continue;
    layer = layer * mesh_.AxisSize(a) + mesh_.Coordinate(index, a);
  }
  return layer;
}

int Layout::TileNumberAt(int index) const {
  int number = 0;
  for (int a = 0; a < mesh_.num_axes(); ++a) {
    if (!placement(a).is_shard()) continue;
    number = number * mesh_.AxisSize(a) + mesh_.Coordinate(index, a);
  }
  return number;
}

std::vector<int> Layout::PartialAxes() const {
  std::vector<int> axes;
  for (int a = 0; a < mesh_.num_axes(); ++a) {
    if (placement(a).is_partial() && mesh_.AxisSize(a) > 1) axes.push_back(a);
  }
  return axes;
}

Reduction Layout::reduction() const {
  for (const Placement& placement : placements_) {
    if (placement.is_partial()) return placement.op;
  }
  return Reduction::kSum;
}

std::string Layout::ToString() const {
  std::ostringstream text;
  text << dtype_ << shape_ << " on " << mesh_.ToString() << ": ";
  for (int a = 0; a < mesh_.num_axes(); ++a) {
    text << (a == 0 ? "" : ", ") << mesh_.axes()[static_cast<size_t>(a)].name << '='
         << placement(a).ToString();
  }
  return text.str();
}

std::vector<int> NewPartialAxes(const Layout& from, const Layout& to) {
  std::vector<int> axes;
  for (int a : to.PartialAxes()) {
    const bool keeps = from.mesh() == to.mesh() && from.placement(a) == to.placement(a);
    if (!keeps) axes.push_back(a);
  }
  return axes;
}

Status CheckReshard(const Layout& from, const Layout& to) {
  if (from.shape() != to.shape() || from.dtype() != to.dtype()) {
    return InvalidArgument("a reshard keeps shape and dtype, and ", from, " has others than ", to);
  }
  if (to.reduction() != Reduction::kAvg) return OkStatus();
  if (NewPartialAxes(from.WithoutUnitAxes(), to.WithoutUnitAxes()).empty()) return OkStatus();
  return InvalidArgument("a reshard cannot make partial values of an average (", to, ") from ",
                         from,
                         ": no value of the other ranks would leave it what it is; use "
                         "partial(sum)");
}

}  // namespace lockstep::plan
