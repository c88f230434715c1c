#include "tools/cli/plan/plan_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "runtime/base/quantity.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/mesh.h"
#include "services/config/yaml_document.h"
#include "tools/cli/argument.h"
#include "tools/cli/plan/plan_collective.h"
#include "tools/cli/program/step_reader.h"

namespace lockstep::cli::plan_file {
namespace {

using plan::CallArgument;
using plan::Layout;
using plan::Mesh;
using plan::Placement;
using plan::ValueId;
using program::FileContext;
using program::PlanSection;
using program::Suggestion;

std::vector<std::string_view> NamesOf(const auto& map) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : map) names.push_back(name);
  return names;
}

class PlanReader {
 public:
  explicit PlanReader(FileContext& file) : file_(file) {}

  // Problems are reported; what is returned is of use if there are none.
  void Read(const YAML::Node& plan) {
    if (!plan.IsMap()) return file_.Report(plan, "plan", "expected meshes, layouts, steps, ...");
    CheckKeys(plan, "plan", {"nodes", "meshes", "layouts", "inputs", "steps", "outputs"});
    ReadNodes(plan["nodes"]);
    ForEachIn(plan["meshes"], "meshes", [&](const std::string& name, const YAML::Node& node) {
      if (auto mesh = ReadMesh(name, node)) {
        meshes_.emplace(name, *std::move(mesh));
      } else {
        unread_.insert(name);
      }
    });
    ForEachIn(plan["layouts"], "layouts", [&](const std::string& name, const YAML::Node& node) {
      if (auto layout = ReadLayout(name, node)) {
        layouts_.emplace(name, *std::move(layout));
      } else {
        unread_.insert(name);
      }
    });
    ForEachIn(plan["inputs"], "inputs", [&](const std::string& name, const YAML::Node& node) {
      const Layout* const layout = FindLayout(node, "inputs." + name);
      if (layout != nullptr) {
        Hold(name, builder_.Input(name, *layout));
      } else {
        unread_.insert(name);
      }
    });
    const YAML::Node steps = plan["steps"];
    if (!steps.IsDefined() || !steps.IsSequence()) {
      file_.Report(plan, "plan", "the list \"steps\" is missing");
    } else {
      for (const YAML::Node& step : steps) ReadStep(step);
    }
    ReadOutputs(plan["outputs"]);
  }

  PlanSection Result(bool is_read) {
    PlanSection section{nullptr, std::move(outputs_), std::move(modules_), std::move(value_names_),
                        std::move(topology_)};
    if (!is_read) return section;
    StatusOr<plan::Program> built = builder_.Build();
    if (built.ok()) {
      section.program = std::make_shared<const plan::Program>(*std::move(built));
    } else {
      ReportUnbuilt(Message(built.status()));
    }
    return section;
  }

 private:
  // The message begins with the line, if it is about one: "layers.yaml:12: ...".
  void ReportUnbuilt(const std::string& message) {
    const std::string name = std::filesystem::path(file_.file).filename().string() + ":";
    const size_t end = message.starts_with(name) ? message.find(": ", name.size()) : 0;
    if (end == 0 || end == std::string::npos)
      return file_.problems.Add(file_.file, "plan: " + message);
    const std::string line = message.substr(name.size(), end - name.size());
    file_.problems.Add(file_.file + ":" + line, message.substr(end + 2));
  }

  void CheckKeys(const YAML::Node& node, const std::string& title,
                 const std::vector<std::string_view>& known) {
    for (const auto& entry : node) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      file_.Report(entry.first, title, "unknown key \"" + key + "\"" + Suggestion(key, known));
    }
  }

  template <typename Visit>
  void ForEachIn(const YAML::Node& section, const std::string& name, Visit&& visit) {
    if (!section.IsDefined()) return;
    if (!section.IsMap()) return file_.Report(section, "plan", name + ": expected names");
    for (const auto& entry : section) {
      if (entry.first.IsScalar()) {
        visit(entry.first.Scalar(), entry.second);
      } else {
        file_.Report(entry.first, "plan." + name, "expected a name");
      }
    }
  }

  // Not of what is there, but could not be read: that is told already.
  void ReportMissing(const YAML::Node& at, const std::string& title, const std::string& kind,
                     const std::string& name, const std::vector<std::string_view>& known) {
    if (unread_.contains(name)) return;
    file_.Report(at, title, "there is no " + kind + " \"" + name + "\"" + Suggestion(name, known));
  }

  // [0, 3, 1], or "0-1023".
  std::optional<std::vector<Rank>> ReadRanks(const YAML::Node& node, const std::string& title) {
    std::optional<std::vector<Rank>> ranks = ParseRanks(node);
    if (!ranks.has_value()) {
      file_.Report(node, title, "ranks: expected a list, as in [0, 1], or a range, as in 0-3");
    }
    return ranks;
  }

  static std::optional<std::vector<Rank>> ParseRanks(const YAML::Node& node) {
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

  void ReadNodes(const YAML::Node& node) {
    if (!node.IsDefined()) return;
    try {
      topology_ = plan::Topology(node.as<std::vector<int>>());
    } catch (const YAML::Exception&) {
      file_.Report(node, "plan", "nodes: expected the node of each rank, as in [0, 0, 1, 1]");
    }
  }

  // The value, or nothing after reporting its error.
  template <typename T>
  std::optional<T> Check(const YAML::Node& at, const std::string& title, StatusOr<T> value) {
    if (value.ok()) return *std::move(value);
    file_.Report(at, title, Message(value.status()));
    return std::nullopt;
  }

  std::optional<Mesh> ReadMesh(const std::string& name, const YAML::Node& node) {
    const std::string title = "meshes." + name;
    if (!node.IsMap()) {
      file_.Report(node, title, "expected {ranks: ...}, and perhaps axes");
      return std::nullopt;
    }
    CheckKeys(node, title, {"axes", "ranks"});
    const auto ranks = ReadRanks(node["ranks"], title);
    if (!ranks.has_value()) return std::nullopt;
    if (!node["axes"].IsDefined()) return Check(node, title, Mesh::Line(*ranks));
    std::vector<plan::MeshAxis> axes;
    try {
      for (const auto& axis : node["axes"]) {
        axes.push_back({axis.first.as<std::string>(), axis.second.as<int>()});
      }
    } catch (const YAML::Exception&) {
      file_.Report(node["axes"], title, "axes: expected names and sizes, as in {x: 2, y: 2}");
      return std::nullopt;
    }
    return Check(node, title, Mesh::Make(std::move(axes), *ranks));
  }

  std::optional<Layout> ReadLayout(const std::string& name, const YAML::Node& node) {
    const std::string title = "layouts." + name;
    if (!node.IsMap()) {
      file_.Report(node, title, "expected {shape: ..., dtype: ..., mesh: ..., placements: ...}");
      return std::nullopt;
    }
    CheckKeys(node, title, {"shape", "dtype", "mesh", "placements"});
    const std::string mesh_name = ScalarOf(node["mesh"]);
    const auto mesh = meshes_.find(mesh_name);
    if (mesh == meshes_.end()) {
      ReportMissing(node, title, "mesh", mesh_name, NamesOf(meshes_));
      return std::nullopt;
    }
    std::vector<Placement> placements;
    for (const YAML::Node& placement : node["placements"]) {
      if (!placement.IsScalar()) {
        file_.Report(placement, title,
                     "placements: expected a text; what has colons or commas needs quotes, as in "
                     "[\"shard(0: 3, 0, 5)\"]");
        return std::nullopt;
      }
      auto parsed = Check(placement, title, plan::ParsePlacement(ScalarOf(placement)));
      if (!parsed.has_value()) return std::nullopt;
      placements.push_back(*parsed);
    }
    const std::string dtype_name = node["dtype"].IsDefined() ? ScalarOf(node["dtype"]) : "f32";
    const auto dtype = Check(node, title, ParseDType(dtype_name));
    std::vector<int64_t> extents;
    try {
      extents = node["shape"].as<std::vector<int64_t>>();
    } catch (const YAML::Exception&) {
      file_.Report(node, title, "shape: expected a list of extents, as in [64, 32]");
      return std::nullopt;
    }
    if (extents.size() > static_cast<size_t>(Shape::kMaxDims)) {
      file_.Report(node, title,
                   "shape: at most " + std::to_string(Shape::kMaxDims) + " dimensions");
      return std::nullopt;
    }
    if (!dtype.has_value()) return std::nullopt;
    return Check(node, title,
                 Layout::Make(Shape(absl::MakeConstSpan(extents)), *dtype, mesh->second,
                              std::move(placements)));
  }

  static std::string ScalarOf(const YAML::Node& node) {
    return node.IsDefined() && node.IsScalar() ? node.Scalar() : "";
  }

  const Layout* FindLayout(const YAML::Node& node, const std::string& title) {
    const std::string name = ScalarOf(node);
    const auto found = layouts_.find(name);
    if (found != layouts_.end()) return &found->second;
    ReportMissing(node, title, "layout", name, NamesOf(layouts_));
    return nullptr;
  }

  void Hold(const std::string& name, ValueId id) {
    values_[name] = id;
    value_names_.resize(static_cast<size_t>(id) + 1);
    value_names_[static_cast<size_t>(id)] = name;
  }

  std::optional<ValueId> FindValue(const YAML::Node& at, const std::string& title,
                                   const std::string& name) {
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    ReportMissing(at, title, "value", name, NamesOf(values_));
    return std::nullopt;
  }

  void ReadStep(const YAML::Node& step) {
    const std::string result = step.IsMap() ? ScalarOf(step["as"]) : "";
    const size_t known = value_names_.size();
    ReadAnyStep(step);
    if (!result.empty() && value_names_.size() == known) unread_.insert(result);
  }

  void ReadAnyStep(const YAML::Node& step) {
    const plan::SourceLine where{file_.file.c_str(), step.Mark().line + 1};
    if (!step.IsMap()) return file_.Report(step, "steps", "expected a map");
    if (step["call"].IsDefined()) return ReadCall(step, where);
    if (step["reshard"].IsDefined()) return ReadReshard(step, where);
    if (step["make"].IsDefined()) return ReadMake(step);
    if (step["copy"].IsDefined()) return ReadCopy(step, where);
    if (step["view"].IsDefined()) return ReadView(step, where);
    std::string known = "call, reshard, make, copy, view";
    for (const OperationKind kind : PlanCollectives()) {
      const std::string label(FactsOf(kind).label);
      if (step[label].IsDefined()) return ReadCollectiveStep(step, kind, where);
      known += ", " + label;
    }
    file_.Report(step, "steps", "expected one of the keys " + known);
  }

  void ReadCopy(const YAML::Node& step, plan::SourceLine where) {
    CheckKeys(step, "copy", {"copy", "as"});
    const auto source = FindValue(step, "copy", ScalarOf(step["copy"]));
    if (source.has_value()) HoldResult(step, builder_.Copy(*source, where));
  }

  void ReadView(const YAML::Node& step, plan::SourceLine where) {
    CheckKeys(step, "view", {"view", "to", "as"});
    const auto source = FindValue(step, "view", ScalarOf(step["view"]));
    const Layout* const to = FindLayout(step["to"], "view: to");
    if (source.has_value() && to != nullptr) HoldResult(step, builder_.As(*source, *to, where));
  }

  void ReadCollectiveStep(const YAML::Node& step, OperationKind kind, plan::SourceLine where) {
    const std::string label(FactsOf(kind).label);
    CheckKeys(step, label, KeysOfCollective(kind));
    const std::string name = ScalarOf(step[label]);
    const auto source = FindValue(step, label, name);
    if (!source.has_value()) return;
    auto collective = ReadCollective(step, kind, name, builder_.LayoutOf(*source).mesh(), file_);
    if (collective.has_value()) {
      HoldResult(step, builder_.Do(*std::move(collective), *source, where));
    }
  }

  void ReadReshard(const YAML::Node& step, plan::SourceLine where) {
    CheckKeys(step, "reshard", {"reshard", "to", "as"});
    const auto source = FindValue(step, "reshard", ScalarOf(step["reshard"]));
    const Layout* const to = FindLayout(step["to"], "reshard: to");
    if (source.has_value() && to != nullptr) {
      HoldResult(step, builder_.Reshard(*source, *to, where));
    }
  }

  void ReadMake(const YAML::Node& step) {
    CheckKeys(step, "make", {"make", "as"});
    const Layout* const layout = FindLayout(step["make"], "make");
    if (layout != nullptr) HoldResult(step, builder_.Make(*layout));
  }

  void HoldResult(const YAML::Node& step, ValueId id) {
    const std::string name = ScalarOf(step["as"]);
    if (!program::IsRegisterName(name)) {
      return file_.Report(step, "as", "expected a name, as in \"as: y\"");
    }
    Hold(name, id);
  }

  void ReadCall(const YAML::Node& step, plan::SourceLine where) {
    CheckKeys(step, "call", {"call", "module", "args", "result", "as"});
    const std::string function = ScalarOf(step["call"]);
    ReadModule(step, function);
    std::vector<CallArgument> arguments;
    bool is_complete = true;
    for (const YAML::Node& node : step["args"]) {
      auto argument = ReadCallArgument(node, function);
      is_complete = is_complete && argument.has_value();
      if (argument.has_value()) arguments.push_back(*std::move(argument));
    }
    if (!step["result"].IsDefined()) {
      if (step["as"].IsDefined()) {
        file_.Report(step, function, "\"as\" names a result, whose layout \"result\" is missing");
      }
      if (is_complete) builder_.Call(function, std::move(arguments), where);
      return;
    }
    const Layout* const result = FindLayout(step["result"], function + ": result");
    if (result != nullptr && is_complete) {
      HoldResult(step, builder_.Call(function, std::move(arguments), *result, where));
    }
  }

  // A program knows functions by their names alone.
  void ReadModule(const YAML::Node& step, const std::string& function) {
    const std::string module = ScalarOf(step["module"]);
    if (step["module"].IsDefined() && !program::IsRegisterName(module)) {
      return file_.Report(step["module"], function, "module: expected the register of a module");
    }
    const auto [known, is_new] = module_of_.emplace(function, module);
    if (known->second != module) {
      return file_.Report(step, function,
                          "another step calls the function of this name from " +
                              (known->second.empty() ? "no module" : "module " + known->second));
    }
    if (is_new && !module.empty()) modules_.emplace(function, module);
  }

  // "$x", "write $x", "update $x", or a literal.
  std::optional<CallArgument> ReadCallArgument(const YAML::Node& node, const std::string& title) {
    const std::string text = ScalarOf(node);
    using Make = CallArgument (*)(ValueId);
    const std::pair<std::string_view, Make> uses[] = {
        {"$", plan::Read}, {"write $", plan::Write}, {"update $", plan::Update}};
    for (const auto& [prefix, make] : uses) {
      if (!text.starts_with(prefix)) continue;
      const auto value = FindValue(node, title, text.substr(prefix.size()));
      if (!value.has_value()) return std::nullopt;
      return make(*value);
    }
    const auto value = Check(node, title, ReadValue(node, file_.directory));
    if (!value.has_value()) return std::nullopt;
    if (const auto* it = value->As<bool>()) return plan::Pass(*it);
    if (const auto* it = value->As<int64_t>()) return plan::Pass(*it);
    if (const auto* it = value->As<double>()) return plan::Pass(*it);
    if (const auto* it = value->As<std::string>()) return plan::Pass(*it);
    if (const auto* it = value->As<Shape>()) return plan::Pass(*it);
    if (const auto* it = value->As<DType>()) return plan::Pass(*it);
    file_.Report(node, title,
                 "expected a value as in $x, a number, text, a truth value, a shape or a dtype");
    return std::nullopt;
  }

  void ReadOutputs(const YAML::Node& node) {
    if (!node.IsDefined()) return;
    if (!node.IsSequence()) {
      return file_.Report(node, "plan", "outputs: expected a list of values, as in [y, z]");
    }
    for (const YAML::Node& item : node) {
      const std::string name = ScalarOf(item);
      outputs_.push_back(name);
      const auto value = FindValue(item, "outputs", name);
      if (value.has_value()) builder_.Output(name, *value);
    }
  }

  FileContext& file_;
  plan::Topology topology_;
  std::map<std::string, Mesh, std::less<>> meshes_;
  std::map<std::string, Layout, std::less<>> layouts_;
  std::map<std::string, ValueId, std::less<>> values_;
  std::vector<std::string> value_names_;
  std::vector<std::string> outputs_;
  std::map<std::string, std::string> module_of_;  // by function; empty: none
  std::map<std::string, std::string> modules_;    // the same, of those that have one
  std::set<std::string> unread_;                  // names of what is there, and wrong
  plan::ProgramBuilder builder_;
};

}  // namespace

PlanSection ReadPlanSection(const YAML::Node& plan, FileContext& file) {
  PlanReader reader(file);
  const size_t problems = file.problems.size();
  reader.Read(plan);
  return reader.Result(file.problems.size() == problems);
}

StatusOr<PlanFile> ReadPlanFile(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, program::ReadText(path));
  config::Problems problems;
  FileContext file{path, std::filesystem::path(path).parent_path().string(), problems};
  PlanSection section;
  try {
    const YAML::Node root = config::ReadYamlDocument(text).root;
    const YAML::Node plan = root.IsMap() ? root["plan"] : YAML::Node(YAML::NodeType::Undefined);
    if (plan.IsDefined()) {
      section = ReadPlanSection(plan, file);
    } else {
      file.Report(root, "", "the section \"plan\" is missing");
    }
  } catch (const YAML::Exception& bad) {
    const std::string line = bad.mark.is_null() ? "" : ":" + std::to_string(bad.mark.line + 1);
    problems.Add(path + line, "not valid YAML: " + bad.msg);
  }
  LOCKSTEP_RETURN_IF_ERROR(problems.ToStatus());
  LOCKSTEP_ASSIGN_OR_RETURN(
      plan::LoweredProgram lowered,
      plan::LowerProgram(std::move(section.program), section.topology, plan::CostModel()));
  return PlanFile{std::move(lowered), std::move(section.value_names), std::move(section.topology),
                  std::move(section.modules)};
}

}  // namespace lockstep::cli::plan_file
