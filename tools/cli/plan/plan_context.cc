#include "tools/cli/plan/plan_context.h"

#include <algorithm>

namespace lockstep::cli::plan_file {

std::string ScalarOf(const YAML::Node& node) {
  return node.IsDefined() && node.IsScalar() ? node.Scalar() : "";
}

void PlanContext::CheckKeys(const YAML::Node& node, const std::string& title,
                            const std::vector<std::string_view>& known) {
  std::set<std::string> keys;
  for (const auto& entry : node) {
    const std::string key = ScalarOf(entry.first);
    if (!keys.insert(key).second) {
      Report(entry.first, title, "the key \"" + key + "\" is given twice");
    }
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    Report(entry.first, title, "unknown key \"" + key + "\"" + program::Suggestion(key, known));
  }
}

bool PlanContext::CheckList(const YAML::Node& node, const std::string& title,
                            const std::string& what) {
  if (!node.IsDefined() || node.IsNull() || node.IsSequence()) return true;
  Report(node, title, what);
  return false;
}

void PlanContext::ReportMissing(const YAML::Node& at, const std::string& title,
                                const std::string& kind, const std::string& name,
                                const std::vector<std::string_view>& known) {
  if (unread_.contains(name)) return;
  Report(at, title, "there is no " + kind + " \"" + name + "\"" + program::Suggestion(name, known));
}

}  // namespace lockstep::cli::plan_file
