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
  if (PlaceOf(first).empty()) return "";
  if (first == last) {
    return PlaceOf(first) + ", step " + std::to_string(first) + " of the plan (" +
           KindOf(prepared_->steps.steps[first]) + ")";
  }
  return PlaceOf(first, last) + ", steps " + std::to_string(first) + " to " + std::to_string(last) +
         " of the plan";
}

std::string PlanStepNames::PlaceOf(size_t first, size_t last) const {
  return PlaceOf(first) + (PlaceOf(first) == PlaceOf(last) ? "" : " to " + PlaceOf(last));
}

const std::string& PlanStepNames::PlaceOf(size_t step) const {
  static const std::string kNone;
  return prepared_->places.empty() ? kNone : prepared_->places[step];
}

}  // namespace lockstep::worker
