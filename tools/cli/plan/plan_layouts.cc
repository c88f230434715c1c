#include "tools/cli/plan/plan_layouts.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/quantity.h"
#include "runtime/base/shape.h"
#include "tools/cli/argument.h"

namespace lockstep::cli::plan_file {
namespace {

using plan::Layout;
using plan::Mesh;
using plan::Placement;

// [0, 3, 1], or "0-1023".
std::optional<std::vector<Rank>> ParseRanks(const YAML::Node& node) {
  if (!node.IsDefined()) return std::nullopt;
  std::vector<Rank> ranks;
  if (node.IsSequence()) {
    for (const YAML::Node& item : node) {
      const StatusOr<int64_t> rank = ParseInteger(ScalarOf(item));
      if (!rank.ok() || *rank < 0 || *rank >= Mesh::kMaxRanks) return std::nullopt;
      ranks.push_back(static_cast<Rank>(*rank));
    }
    return ranks;
  }
  const std::string text = ScalarOf(node);
  const size_t dash = text.find('-');
  if (dash == std::string::npos) return std::nullopt;
  const StatusOr<int64_t> first = ParseInteger(text.substr(0, dash));
  const StatusOr<int64_t> last = ParseInteger(text.substr(dash + 1));
  if (!first.ok() || !last.ok() || *first < 0 || *first > *last || *last >= Mesh::kMaxRanks) {
    return std::nullopt;
  }
  for (int64_t rank = *first; rank <= *last; ++rank) ranks.push_back(static_cast<Rank>(rank));
  return ranks;
}

}  // namespace

PlanLayouts::PlanLayouts(const YAML::Node& plan, PlanContext& context) : context_(context) {
  context.ReadEach(plan["meshes"], "meshes", [&](const std::string& name, const YAML::Node& node) {
    auto mesh = ReadMesh(node, "meshes." + name);
    if (!mesh.has_value()) return false;
    meshes_.emplace(name, *std::move(mesh));
    return true;
  });
  context.ReadEach(plan["layouts"], "layouts",
                   [&](const std::string& name, const YAML::Node& node) {
                     auto layout = ReadLayout(node, "layouts." + name);
                     if (!layout.has_value()) return false;
                     layouts_.emplace(name, *std::move(layout));
                     return true;
                   });
}

const Layout* PlanLayouts::Find(const YAML::Node& node, const YAML::Node& at,
                                const std::string& title) const {
  const std::string name = ScalarOf(node);
  const auto found = layouts_.find(name);
  if (found != layouts_.end()) return &found->second;
  if (name.empty()) {
    context_.Report(node.IsDefined() ? node : at, title, "expected the name of a layout");
  } else {
    context_.ReportMissing(node, title, "layout", name, NamesOf(layouts_));
  }
  return nullptr;
}

const Mesh* PlanLayouts::FindMesh(const YAML::Node& node, const std::string& title) const {
  const auto found = meshes_.find(ScalarOf(node));
  if (found != meshes_.end()) return &found->second;
  context_.ReportMissing(node, title, "mesh", ScalarOf(node), NamesOf(meshes_));
  return nullptr;
}

std::vector<Rank> PlanLayouts::Ranks() const {
  std::set<Rank> ranks;
  for (const auto& [name, mesh] : meshes_) ranks.insert(mesh.ranks().begin(), mesh.ranks().end());
  return {ranks.begin(), ranks.end()};
}

std::optional<Mesh> PlanLayouts::ReadMesh(const YAML::Node& node, const std::string& title) {
  if (!node.IsMap()) {
    context_.Report(node, title, "expected {ranks: ...}, and perhaps axes");
    return std::nullopt;
  }
  context_.CheckKeys(node, title, {"axes", "ranks"});
  const auto ranks = ParseRanks(node["ranks"]);
  if (!ranks.has_value()) {
    context_.Report(node["ranks"].IsDefined() ? node["ranks"] : node, title,
                    "ranks: expected a list, as in [0, 1], or a range, as in 0-3, of ranks from 0 "
                    "to " +
                        std::to_string(Mesh::kMaxRanks - 1));
    return std::nullopt;
  }
  if (!node["axes"].IsDefined()) return context_.Check(node, title, Mesh::Line(*ranks));
  std::vector<plan::MeshAxis> axes;
  try {
    for (const auto& axis : node["axes"]) {
      axes.push_back({axis.first.as<std::string>(), axis.second.as<int>()});
    }
  } catch (const YAML::Exception&) {
    context_.Report(node["axes"], title, "axes: expected names and sizes, as in {x: 2, y: 2}");
    return std::nullopt;
  }
  for (const plan::MeshAxis& axis : axes) {
    if (program::IsRegisterName(axis.name)) continue;
    context_.Report(node["axes"], title, "axes: " + program::WhyNoName(axis.name));
    return std::nullopt;
  }
  return context_.Check(node, title, Mesh::Make(std::move(axes), *ranks));
}

std::optional<Layout> PlanLayouts::ReadLayout(const YAML::Node& node, const std::string& title) {
  if (!node.IsMap()) {
    context_.Report(node, title, "expected {shape: ..., dtype: ..., mesh: ..., placements: ...}");
    return std::nullopt;
  }
  context_.CheckKeys(node, title, {"shape", "dtype", "mesh", "placements"});
  const std::string mesh_name = ScalarOf(node["mesh"]);
  const auto mesh = meshes_.find(mesh_name);
  if (mesh == meshes_.end()) {
    context_.ReportMissing(node, title, "mesh", mesh_name, NamesOf(meshes_));
    return std::nullopt;
  }
  std::vector<Placement> placements;
  if (!context_.CheckList(node["placements"], title,
                          "placements: expected a list, one for each axis, as in [shard(0)]")) {
    return std::nullopt;
  }
  for (const YAML::Node& placement : node["placements"]) {
    if (!placement.IsScalar()) {
      context_.Report(placement, title,
                      "placements: expected a text; what has colons or commas needs quotes, as in "
                      "[\"shard(0: 3, 0, 5)\"]");
      return std::nullopt;
    }
    auto parsed = context_.Check(placement, title, plan::ParsePlacement(ScalarOf(placement)));
    if (!parsed.has_value()) return std::nullopt;
    placements.push_back(*parsed);
  }
  const auto axes = static_cast<size_t>(mesh->second.num_axes());
  if (placements.size() != axes) {
    context_.Report(
        node, title,
        "placements: mesh \"" + mesh_name + "\" has " +
            (axes == 1 ? "1 axis" : std::to_string(axes) + " axes") + ", and there " +
            (placements.size() == 1 ? "is 1 placement"
                                    : "are " + std::to_string(placements.size()) + " placements"));
    return std::nullopt;
  }
  const std::string dtype_name = node["dtype"].IsDefined() ? ScalarOf(node["dtype"]) : "f32";
  const auto dtype = context_.Check(node, title, ParseDType(dtype_name));
  std::vector<int64_t> extents;
  try {
    extents = node["shape"].as<std::vector<int64_t>>();
  } catch (const YAML::Exception&) {
    context_.Report(node, title, "shape: expected a list of extents, as in [64, 32]");
    return std::nullopt;
  }
  if (extents.size() > static_cast<size_t>(Shape::kMaxDims)) {
    context_.Report(node, title,
                    "shape: at most " + std::to_string(Shape::kMaxDims) + " dimensions");
    return std::nullopt;
  }
  if (!dtype.has_value()) return std::nullopt;
  return context_.Check(node, title,
                        Layout::Make(Shape(absl::MakeConstSpan(extents)), *dtype, mesh->second,
                                     std::move(placements)));
}

}  // namespace lockstep::cli::plan_file
