#include "runtime/plan/steps/shared_arena.h"

#include <optional>
#include <utility>
#include <variant>

namespace lockstep::plan {

std::vector<BufferName> NamesOf(const ProgramSteps& steps, size_t num_values,
                                const std::vector<int>& positions) {
  std::vector<std::optional<BufferName>> names(steps.buffers.size());
  for (size_t i = 0; i < num_values; ++i) {
    names[i] = BufferName{BufferName::Kind::kValue, static_cast<int>(i), 0};
  }
  const auto name_once = [&](int buffer, const BufferName& name) {
    std::optional<BufferName>& known = names[static_cast<size_t>(buffer)];
    if (!known.has_value()) known = name;
  };
  for (const ProgramStep& step : steps.steps) {
    const auto* const collective = std::get_if<CollectiveStep>(&step.what);
    if (collective == nullptr) continue;
    name_once(collective->send.buffer, {BufferName::Kind::kPassed, collective->number, 0});
    name_once(collective->recv.buffer, {BufferName::Kind::kPassed, collective->number, 1});
  }
  int position = -1;
  int part = 0;
  const auto name_other = [&](int buffer) {
    if (names[static_cast<size_t>(buffer)].has_value()) return;
    names[static_cast<size_t>(buffer)] = {BufferName::Kind::kOther, position, part++};
  };
  for (size_t i = 0; i < steps.steps.size(); ++i) {
    if (positions[i] != position) part = 0;
    position = positions[i];
    const auto* const copy = std::get_if<CopyStep>(&steps.steps[i].what);
    if (copy != nullptr) ForEachBuffer(*copy, name_other);
    const auto* const fill = std::get_if<FillStep>(&steps.steps[i].what);
    if (fill != nullptr) ForEachBuffer(*fill, name_other);
  }
  // What no step uses lies nowhere, and needs no name.
  std::vector<BufferName> all;
  for (const std::optional<BufferName>& name : names) all.push_back(name.value_or(BufferName()));
  return all;
}

void SharedArena::Add(const BufferName& name, const LiveBuffer& live) {
  const auto [known, is_new] = numbers_.emplace(name, buffers_.size());
  if (is_new) {
    buffers_.push_back(live);
  } else {
    buffers_[known->second].Cover(live);
  }
}

bool SharedArena::Place(int64_t alignment, const std::function<bool()>& is_given_up) {
  std::optional<MemoryPlan> plan = PlanMemory(buffers_, alignment, is_given_up);
  if (!plan.has_value()) return false;
  plan_ = *std::move(plan);
  return true;
}

}  // namespace lockstep::plan
