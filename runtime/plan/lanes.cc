#include "runtime/plan/lanes.h"

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

// By lane: the last step that reads, and that writes to, a buffer; -1: none.
struct LastUses {
  std::array<int, kLanes> read = {-1, -1};
  std::array<int, kLanes> write = {-1, -1};
};

}  // namespace

void AssignLanes(const Program& program, std::vector<ProgramStep>* steps) {
  std::set<size_t> exchanges;  // operations in which this rank meets others
  for (const ProgramStep& step : *steps) {
    if (std::holds_alternative<CollectiveStep>(step.what)) exchanges.insert(step.op);
  }
  std::map<int, LastUses> uses;
  std::array<int, kLanes> has_waited_for = {-1, -1};
  for (size_t i = 0; i < steps->size(); ++i) {
    ProgramStep& step = (*steps)[i];
    step.lane = exchanges.contains(step.op) ? Lane::kCommunication : Lane::kCompute;
    const size_t mine = IndexOf(step.lane);
    const size_t other = 1 - mine;
    int waits_for = -1;
    ForEachUse(program, step, [&](int buffer, bool writes) {
      const LastUses& last = uses[buffer];
      waits_for = std::max(waits_for, last.write[other]);
      if (writes) waits_for = std::max(waits_for, last.read[other]);
    });
    ForEachUse(program, step, [&](int buffer, bool writes) {
      LastUses& last = uses[buffer];
      (writes ? last.write : last.read)[mine] = static_cast<int>(i);
    });
    // What an earlier step of this lane has waited for is done.
    step.waits_for = waits_for > has_waited_for[mine] ? waits_for : -1;
    has_waited_for[mine] = std::max(has_waited_for[mine], waits_for);
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
