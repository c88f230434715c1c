#include "services/worker/execute/plan_graphs.h"

#include <algorithm>
#include <bit>

namespace lockstep::worker {

size_t PlanGraphs::count() const {
  return static_cast<size_t>(std::count_if(
      places_.begin(), places_.end(), [](const Place& place) { return place.graph != nullptr; }));
}

size_t PlanGraphs::held_bytes() const {
  size_t bytes = 0;
  for (const Place& place : places_) {
    if (place.graph != nullptr) bytes += place.graph->graph->held_bytes();
  }
  return bytes;
}

void PlanGraphs::Look(std::vector<const void*> inputs, PlanAgreement::Ready* ready) {
  for (size_t i = 0; i < kPlaces; ++i) {
    const Place& place = places_[i];
    if (!place.is_used || place.inputs != inputs) continue;
    ready->buffers |= 1U << i;
    if (place.graph != nullptr) ready->graphs |= 1U << i;
  }
  looked_at_ = std::move(inputs);
}

PlanGraphs::Choice PlanGraphs::Choose(const PlanAgreement::Verdict& verdict) {
  ++executions_;
  Choice choice;
  if (!verdict.may_capture || !verdict.is_known) return choice;
  if (verdict.graphs != 0) {
    choice = {Way::kLaunch, static_cast<size_t>(std::countr_zero(verdict.graphs))};
  } else if (verdict.buffers != 0) {
    choice = {Way::kCapture, static_cast<size_t>(std::countr_zero(verdict.buffers))};
  } else {
    const auto oldest = std::min_element(
        places_.begin(), places_.end(),
        [](const Place& one, const Place& other) { return one.used_at < other.used_at; });
    *oldest = {std::move(looked_at_), nullptr, /*is_used=*/true};
    choice.place = static_cast<size_t>(oldest - places_.begin());
  }
  places_[choice.place].used_at = executions_;
  return choice;
}

}  // namespace lockstep::worker
