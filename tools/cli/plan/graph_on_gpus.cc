#include "tools/cli/plan/graph_on_gpus.h"

#include <optional>
#include <set>
#include <variant>

#include "runtime/module/builtins.h"

namespace lockstep::cli::plan_file {

GraphOnGpus FindGraphOnGpus(const PlanFile& file) {
  const plan::Program& program = file.program();
  GraphOnGpus graph;
  std::set<int> seen;
  for (const plan::ProgramOp& op : program.ops()) {
    const auto* const call = std::get_if<plan::CallOp>(&op.what);
    if (call == nullptr || !seen.insert(static_cast<int>(call->function)).second) continue;
    const std::string& name = program.functions()[static_cast<size_t>(call->function)];
    if (file.fragments.contains(name)) {
      if (graph.why_not.empty()) graph.why_not = op.where + " calls the fragment " + name;
      continue;
    }
    const std::optional<bool> may_be_captured = module::BuiltinMayBeCaptured(name);
    if (!may_be_captured.has_value()) {
      graph.up_to.push_back(name + " (" + op.where + ")");
    } else if (!*may_be_captured && graph.why_not.empty()) {
      graph.why_not = op.where + " calls " + name + ", which cannot be captured";
    }
  }
  return graph;
}

std::string Describe(const GraphOnGpus& graph) {
  if (!graph.why_not.empty()) return "step by step, as " + graph.why_not;
  std::string functions;
  for (const std::string& function : graph.up_to) {
    functions += (functions.empty() ? "" : ", ") + function;
  }
  if (functions.empty()) return "one graph";
  return "one graph, if these functions say that they may be captured: " + functions;
}

}  // namespace lockstep::cli::plan_file
