#include "tools/cli/plan/plan_collective.h"

#include <limits>

#include "runtime/base/quantity.h"
#include "tools/cli/argument.h"
#include "tools/cli/plan/plan_context.h"

namespace lockstep::cli::plan_file {
namespace {

bool Combines(OperationKind kind) {
  return kind == OperationKind::kAllReduce || kind == OperationKind::kReduceScatter;
}
bool DealsOut(OperationKind kind) {
  return kind == OperationKind::kReduceScatter || kind == OperationKind::kAllToAll;
}

}  // namespace

const std::vector<OperationKind>& PlanCollectives() {
  static const std::vector<OperationKind> kinds = {
      OperationKind::kAllReduce, OperationKind::kReduceScatter, OperationKind::kAllGather,
      OperationKind::kAllToAll, OperationKind::kBroadcast};
  return kinds;
}

std::vector<std::string_view> KeysOfCollective(OperationKind kind) {
  std::vector<std::string_view> keys = {FactsOf(kind).label, "axis"};
  if (DealsOut(kind)) keys.push_back("dim");
  if (Combines(kind)) keys.push_back("op");
  if (kind == OperationKind::kBroadcast) keys.push_back("root");
  keys.push_back("as");
  return keys;
}

std::optional<plan::Collective> ReadCollective(const YAML::Node& step, OperationKind kind,
                                               const std::string& source, const plan::Mesh& mesh,
                                               program::FileContext& file) {
  const std::string title(FactsOf(kind).label);
  plan::Collective collective{.kind = kind, .axis = ScalarOf(step["axis"])};
  bool is_good = true;
  const auto report = [&](const std::string& what) {
    file.Report(step, title, what);
    is_good = false;
  };
  if (!mesh.FindAxis(collective.axis).has_value()) {
    std::vector<std::string_view> known;
    for (const plan::MeshAxis& axis : mesh.axes()) known.push_back(axis.name);
    report("axis: the mesh of " + source + ", " + mesh.ToString() + ", has no axis \"" +
           collective.axis + "\"" + program::Suggestion(collective.axis, known));
  }
  const auto read_number = [&](const std::string& key, int& number) {
    const StatusOr<int64_t> read = ParseInteger(ScalarOf(step[key]));
    const bool fits = read.ok() && *read >= 0 && *read <= std::numeric_limits<int>::max();
    if (!fits) return report(key + ": expected a number, as in \"" + key + ": 1\"");
    number = static_cast<int>(*read);
  };
  if (DealsOut(kind)) read_number("dim", collective.dim);
  if (kind == OperationKind::kBroadcast) read_number("root", collective.root);
  if (Combines(kind) && step["op"].IsDefined()) {
    const StatusOr<Reduction> op = ParseReduction(ScalarOf(step["op"]));
    if (op.ok()) {
      collective.op = *op;
    } else {
      report("op: " + Message(op.status()));
    }
  }
  if (!is_good) return std::nullopt;
  return collective;
}

}  // namespace lockstep::cli::plan_file
