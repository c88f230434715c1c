// The program of a `plan:` section: its inputs, steps and outputs.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/operations.h"
#include "runtime/base/status.h"
#include "runtime/fragment/plan_call.h"
#include "runtime/plan/program.h"
#include "tools/cli/plan/plan_context.h"
#include "tools/cli/plan/plan_layouts.h"

namespace lockstep::cli::plan_file {

// Ownership: borrows `layouts` and `context`. Threads: one.
class PlanSteps {
 public:
  // Reads `inputs`, `steps` and `outputs` of the section, and reports what is wrong with them.
  PlanSteps(const YAML::Node& plan, const PlanLayouts& layouts, PlanContext& context);

  // The program, if nothing was reported.
  StatusOr<plan::Program> Build() const { return builder_.Build(value_names_); }

  // Where an output is named; not defined if there is none of that name.
  YAML::Node FindOutput(const std::string& name) const;

  // As in program::PlanSection.
  const std::vector<std::string>& outputs() const { return outputs_; }
  const std::map<std::string, std::string>& modules() const { return modules_; }
  const std::map<std::string, std::string>& fragments() const { return fragments_; }
  const std::vector<std::string>& value_names() const { return value_names_; }

 private:
  void ReadStep(const YAML::Node& step);
  void ReadAnyStep(const YAML::Node& step);
  void ReadCall(const YAML::Node& step, plan::SourceLine where);
  void ReadFragment(const YAML::Node& step, plan::SourceLine where);
  std::optional<std::vector<fragment::PlanInput>> ReadFragmentInputs(const YAML::Node& step,
                                                                     const std::string& title);
  // The values that inputs were brought to are called by them.
  void NameMoved(absl::Span<const fragment::PlanInput> inputs, const fragment::PlanCall& call);
  void ReadReshard(const YAML::Node& step, plan::SourceLine where);
  void ReadMake(const YAML::Node& step);
  void ReadCopy(const YAML::Node& step, plan::SourceLine where);
  void ReadView(const YAML::Node& step, plan::SourceLine where);
  void ReadCollectiveStep(const YAML::Node& step, OperationKind kind, plan::SourceLine where);
  void ReadModule(const YAML::Node& step, const std::string& function);
  std::optional<plan::CallArgument> ReadCallArgument(const YAML::Node& node,
                                                     const std::string& title);
  bool CheckCount(size_t operations, const YAML::Node& step);
  std::optional<plan::Chunks> ReadChunks(const YAML::Node& step, const std::string& function,
                                         const std::vector<plan::CallArgument>& arguments);
  void ReadOutputs(const YAML::Node& node);

  // The value of that name from here on.
  void Hold(const std::string& name, plan::ValueId id);
  // By the step's `as`.
  void HoldResult(const YAML::Node& step, plan::ValueId id);
  std::optional<plan::ValueId> FindValue(const YAML::Node& at, const std::string& title,
                                         const std::string& name);

  const PlanLayouts& layouts_;
  PlanContext& context_;
  std::map<std::string, plan::ValueId, std::less<>> values_;
  std::vector<std::string> value_names_;
  std::vector<std::string> outputs_;
  std::map<std::string, YAML::Node> output_nodes_;  // by name
  std::map<std::string, std::string> module_of_;    // by function; empty: none
  std::map<std::string, std::string> modules_;      // the same, of those that have one
  std::map<std::string, std::string> fragments_;    // by function: the fragment's file
  plan::ProgramBuilder builder_;
};

}  // namespace lockstep::cli::plan_file
