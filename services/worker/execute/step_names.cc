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
  const auto lines = [&](size_t step) {
    return plan::LinesOf(program, prepared_->steps.steps[step]);
  };
  const std::string where = lines(first);
  if (where.empty()) return "";
  if (first == last) {
    return where + ", step " + std::to_string(first) + " of the plan (" +
           KindOf(prepared_->steps.steps[first]) + ")";
  }
  return where + " to " + lines(last) + ", steps " + std::to_string(first) + " to " +
         std::to_string(last) + " of the plan";
}

}  // namespace lockstep::worker
