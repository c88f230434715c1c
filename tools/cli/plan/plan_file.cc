#include "tools/cli/plan/plan_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "services/config/yaml_document.h"
#include "tools/cli/plan/plan_context.h"
#include "tools/cli/plan/plan_layouts.h"
#include "tools/cli/plan/plan_steps.h"

namespace lockstep::cli::plan_file {
namespace {

using program::FileContext;
using program::PlanSection;

plan::Topology ReadNodes(const YAML::Node& node, PlanContext& context) {
  if (!node.IsDefined()) return plan::Topology();
  try {
    std::vector<int> nodes = node.as<std::vector<int>>();
    if (std::any_of(nodes.begin(), nodes.end(), [](int number) { return number < 0; })) {
      context.Report(node, "plan", "nodes: they are counted from 0");
    }
    return plan::Topology(std::move(nodes));
  } catch (const YAML::Exception&) {
    context.Report(node, "plan", "nodes: expected the node of each rank, as in [0, 0, 1, 1]");
    return plan::Topology();
  }
}

// Ranks that the list leaves out would all share the first node.
void CheckNodes(const YAML::Node& at, const PlanSection& section, PlanContext& context) {
  const size_t given = section.topology.nodes().size();
  const std::vector<Rank> ranks = section.program->Ranks();
  if (given == 0 || ranks.empty() || static_cast<size_t>(ranks.back()) < given) return;
  context.Report(at, "plan",
                 "nodes: the node of each rank is expected, and there are " +
                     std::to_string(given) + " for ranks up to " + std::to_string(ranks.back()));
}

// The output that a message begins with, as in `output "y" is an input: ...`; "": none.
std::string OutputOf(const std::string& message) {
  const std::string start = "output \"";
  if (!message.starts_with(start)) return "";
  return message.substr(start.size(), message.find('"', start.size()) - start.size());
}

// The message begins with the line, if it is about one: "layers.yaml:12: ...". What is about an
// output has the line where that is named; what is about all of the program, that of `plan`.
void ReportUnbuilt(const std::string& message, const YAML::Node& plan, const PlanSteps& steps,
                   FileContext& file) {
  const std::string name = std::filesystem::path(file.file).filename().string() + ":";
  const size_t end = message.starts_with(name) ? message.find(": ", name.size()) : 0;
  if (end == 0 || end == std::string::npos) {
    const YAML::Node output = steps.FindOutput(OutputOf(message));
    return file.Report(output.IsDefined() ? output : plan, "plan", message);
  }
  const std::string line = message.substr(name.size(), end - name.size());
  file.problems.Add(file.file + ":" + line, message.substr(end + 2));
}

}  // namespace

PlanSection ReadPlanSection(const YAML::Node& plan, FileContext& file) {
  const size_t problems = file.problems.size();
  PlanContext context(file);
  if (!plan.IsMap()) {
    context.Report(plan, "plan", "expected meshes, layouts, steps, ...");
    return PlanSection();
  }
  context.CheckKeys(plan, "plan", {"nodes", "meshes", "layouts", "inputs", "steps", "outputs"});
  plan::Topology topology = ReadNodes(plan["nodes"], context);
  const PlanLayouts layouts(plan, context);
  const PlanSteps steps(plan, layouts, context);
  PlanSection section{nullptr,           steps.outputs(),     steps.modules(),
                      steps.fragments(), steps.value_names(), std::move(topology)};
  if (file.problems.size() != problems) return section;
  StatusOr<plan::Program> built = steps.Build();
  if (built.ok()) {
    section.program = std::make_shared<const plan::Program>(*std::move(built));
    CheckNodes(plan["nodes"], section, context);
  } else {
    ReportUnbuilt(Message(built.status()), plan, steps, file);
  }
  return section;
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
      plan::LowerProgram(section.program, section.topology, plan::CostModel()));
  return PlanFile{std::move(lowered),           std::move(section.value_names),
                  std::move(section.topology),  std::move(section.modules),
                  std::move(section.fragments), std::move(section.program)};
}

}  // namespace lockstep::cli::plan_file
