#include "runtime/plan/steps/lanes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <variant>

namespace lockstep::plan {
namespace {

constexpr size_t kLanes = 2;

// Calls visit(buffer, writes) for what the step uses.
template <typename Visit>
void ForEachUse(const Program& program, const ProgramStep& step, Visit&& visit) {
  if (const auto* call = std::get_if<CallStep>(&step.what)) {
    const auto& op = std::get<CallOp>(program.ops()[call->op].what);
    for (size_t i = 0; i < op.arguments.size(); ++i) {
      if (call->argument_buffers[i] < 0) continue;
      visit(call->argument_buffers[i], op.arguments[i].writes());
    }
    if (call->result_buffer >= 0) visit(call->result_buffer, true);
  } else if (const auto* copy = std::get_if<CopyStep>(&step.what)) {
    visit(copy->from_buffer, false);
    visit(copy->to_buffer, true);
  } else if (const auto* fill = std::get_if<FillStep>(&step.what)) {
    visit(fill->to.buffer, true);
  } else {
    const auto& collective = std::get<CollectiveStep>(step.what);
    if (collective.send.count > 0) visit(collective.send.buffer, false);
    if (collective.recv.count > 0) visit(collective.recv.buffer, true);
  }
}

size_t IndexOf(Lane lane) { return static_cast<size_t>(lane); }

}  // namespace

void AssignLanes(const Program& program, ProgramSteps* of_rank) {
  std::vector<ProgramStep>* const steps = &of_rank->steps;
  std::set<size_t> exchanges;  // operations in which this rank meets others
  for (const ProgramStep& step : *steps) {
    if (!std::holds_alternative<CollectiveStep>(step.what)) continue;
    exchanges.insert(step.op);
    exchanges.insert(step.together.begin(), step.together.end());
  }
  // By buffer, the last exchange that reads it, and that writes to it.
  std::map<int, int> read;
  std::map<int, int> written;
  const auto last_of = [](const std::map<int, int>& uses, int buffer) {
    const auto found = uses.find(buffer);
    return found == uses.end() ? -1 : found->second;
  };
  int last_computed = -1;
  std::array<int, kLanes> has_waited_for = {-1, -1};
  for (size_t i = 0; i < steps->size(); ++i) {
    ProgramStep& step = (*steps)[i];
    const auto number = static_cast<int>(i);
    step.lane = exchanges.contains(step.op) ? Lane::kCommunication : Lane::kCompute;
    int waits_for = -1;
    if (step.lane == Lane::kCommunication) {
      waits_for = last_computed;
      ForEachUse(program, step, [&](int buffer, bool writes) {
        (writes ? written : read)[of_rank->RootOf(buffer)] = number;
      });
    } else {
      last_computed = number;
      ForEachUse(program, step, [&](int part, bool writes) {
        const int buffer = of_rank->RootOf(part);
        waits_for = std::max(waits_for, last_of(written, buffer));
        if (writes) waits_for = std::max(waits_for, last_of(read, buffer));
      });
    }
    // What an earlier step of this lane has waited for is done.
    int& known = has_waited_for[IndexOf(step.lane)];
    if (waits_for > known) step.waits_for = known = waits_for;
  }
}

std::vector<int> InUseUntil(const std::vector<ProgramStep>& steps) {
  const auto last = static_cast<int>(steps.size()) - 1;
  std::vector<int> until(steps.size(), last);
  // From the end: those of a lane that wait for anything, the last one first.
  std::array<std::vector<int>, kLanes> waiting;
  for (int i = last; i >= 0; --i) {
    const ProgramStep& step = steps[static_cast<size_t>(i)];
    // The first of the other lane that waits for this step, or for a later one of this lane.
    const std::vector<int>& others = waiting[1 - IndexOf(step.lane)];
    const auto first = std::partition_point(others.rbegin(), others.rend(), [&](int other) {
      return steps[static_cast<size_t>(other)].waits_for < i;
    });
    if (first != others.rend()) until[static_cast<size_t>(i)] = *first - 1;
    if (step.waits_for >= 0) waiting[IndexOf(step.lane)].push_back(i);
  }
  return until;
}

}  // namespace lockstep::plan
