#include "services/worker/execute/step_names.h"

#include <utility>
#include <variant>

namespace lockstep::worker {

const char* KindOf(const plan::ProgramStep& step) {
  if (std::holds_alternative<plan::CallStep>(step.what)) return "call";
  if (std::holds_alternative<plan::CopyStep>(step.what)) return "copy";
  if (std::holds_alternative<plan::FillStep>(step.what)) return "fill";
  return FactsOf(std::get<plan::CollectiveStep>(step.what).kind).name.data();
}

PlanStepNames::PlanStepNames(std::shared_ptr<const PreparedProgram> prepared)
    : prepared_(std::move(prepared)) {
  for (const plan::ProgramStep& step : prepared_->steps.steps) {
    places_.push_back(plan::LinesOf(*prepared_->lowered.program, step));
  }
}

std::string PlanStepNames::NameOf(size_t first, size_t last) const {
  if (places_[first].empty()) return "";
  if (first == last) {
    return places_[first] + ", step " + std::to_string(first) + " of the plan (" +
           KindOf(prepared_->steps.steps[first]) + ")";
  }
  return PlaceOf(first, last) + ", steps " + std::to_string(first) + " to " + std::to_string(last) +
         " of the plan";
}

std::string PlanStepNames::PlaceOf(size_t first, size_t last) const {
  return places_[first] + (places_[first] == places_[last] ? "" : " to " + places_[last]);
}

}  // namespace lockstep::worker
