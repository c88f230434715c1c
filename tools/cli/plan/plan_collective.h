// A collective among the steps of a `plan:` section, as in
// `{reduce_scatter: x, axis: tp, dim: 0, op: sum, as: y}`.
#pragma once

#include <yaml-cpp/yaml.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/operations.h"
#include "runtime/plan/collective.h"
#include "runtime/plan/mesh.h"
#include "tools/cli/program/step_reader.h"

namespace lockstep::cli::plan_file {

// The collectives that a plan has.
const std::vector<OperationKind>& PlanCollectives();

// The keys that a step with this one may have: `axis` and `as`, and what the operation needs.
std::vector<std::string_view> KeysOfCollective(OperationKind kind);

// The step's collective along an axis of `mesh`, which is that of `source`. Nothing after reporting
// what is wrong with it.
std::optional<plan::Collective> ReadCollective(const YAML::Node& step, OperationKind kind,
                                               const std::string& source, const plan::Mesh& mesh,
                                               program::FileContext& file);

}  // namespace lockstep::cli::plan_file
