#include "services/worker/execute/step_names.h"

#include <variant>

namespace lockstep::worker {

const char* KindOf(const plan::ProgramStep& step) {
  if (std::holds_alternative<plan::CallStep>(step.what)) return "call";
  if (std::holds_alternative<plan::CopyStep>(step.what)) return "copy";
  if (std::holds_alternative<plan::FillStep>(step.what)) return "fill";
  return FactsOf(std::get<plan::CollectiveStep>(step.what).kind).name.data();
}

std::string PlanStepNames::NameOf(size_t first, size_t last) const {
  const plan::Program& program = *prepared_->lowered.program;
  const auto where = [&](size_t step) -> const std::string& {
    return program.ops()[prepared_->steps.steps[step].op].where;
  };
  if (where(first).empty()) return "";
  if (first == last) {
    return where(first) + ", step " + std::to_string(first) + " of the plan (" +
           KindOf(prepared_->steps.steps[first]) + ")";
  }
  return where(first) + " to " + where(last) + ", steps " + std::to_string(first) + " to " +
         std::to_string(last) + " of the plan";
}

}  // namespace lockstep::worker
