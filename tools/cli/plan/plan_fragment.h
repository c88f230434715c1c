// The parts of a step of a plan that calls a fragment:
//
//     - {fragment: scale.mlir, args: [rows $x, 0.5],
//        results: [{as: y, combine: rows, shape: [512, 256], dtype: f32}]}
//
// Only workers compile it. So the step says what its results are, and where the plan is bound, that
// is compared with what the fragment states.
#pragma once

#include <yaml-cpp/yaml.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/fragment/placed_call.h"
#include "runtime/fragment/plan_call.h"
#include "runtime/fragment/split.h"
#include "runtime/plan/program.h"
#include "tools/cli/plan/plan_context.h"

namespace lockstep::cli::plan_file {

// "rows $x" names a value, and how it is split.
struct SplitValue {
  std::string name;
  fragment::Split split;
};
// Nothing: the text names no value, or one that is written to. kInvalidArgument: there is no such
// split.
std::optional<StatusOr<SplitValue>> ReadSplit(std::string_view text);

struct NamedOutput {
  std::string name;  // by `as`
  fragment::Output output;
};
// Those of the step; nothing after reporting what is wrong with them.
std::optional<std::vector<NamedOutput>> ReadFragmentResults(const YAML::Node& step,
                                                            const std::string& title,
                                                            PlanContext& context);

// The path of the file that `node` names, beside the plan's; nothing after reporting that there is
// none.
std::optional<std::string> FindFragmentFile(const YAML::Node& node, PlanContext& context);

// Adds a call of a fragment that takes what it is given, and makes what is said of its results.
// The errors of fragment::CallFragment().
StatusOr<fragment::PlanCall> CallAsStated(plan::ProgramBuilder& program, const std::string& name,
                                          const std::vector<Rank>& workers,
                                          absl::Span<const fragment::PlanInput> inputs,
                                          const std::vector<fragment::Output>& outputs,
                                          plan::SourceLine where);

}  // namespace lockstep::cli::plan_file
