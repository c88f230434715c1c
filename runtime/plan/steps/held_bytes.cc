#include "runtime/plan/steps/held_bytes.h"

#include <memory>
#include <set>
#include <variant>

#include "runtime/plan/lowering/teams.h"

namespace lockstep::plan {
namespace {

template <typename T>
size_t BytesIn(const std::vector<T>& elements) {
  return elements.size() * sizeof(T);
}

// What a step points to; most are in one piece.
template <typename Step>
size_t BytesBehind(const Step&) {
  return 0;
}
size_t BytesBehind(const CallStep& call) { return BytesIn(call.argument_buffers); }
size_t BytesBehind(const CollectiveStep& collective) {
  return BytesIn(collective.team) + BytesIn(collective.counts) + BytesIn(collective.recv_counts);
}

// Reshards of one pair of layouts share theirs.
size_t BytesOfTeams(const std::vector<std::shared_ptr<const Teams>>& teams) {
  size_t bytes = BytesIn(teams);
  std::set<const Teams*> counted;
  for (const std::shared_ptr<const Teams>& of_collective : teams) {
    if (!counted.insert(of_collective.get()).second) continue;
    bytes += sizeof *of_collective;
    for (const Team& team : *of_collective) bytes += sizeof(Team) + BytesIn(team);
  }
  return bytes;
}

}  // namespace

size_t HeldBytes(const ProgramSteps& steps) {
  size_t bytes = sizeof steps + BytesIn(steps.buffers) + BytesIn(steps.steps);
  for (const ProgramStep& step : steps.steps) {
    bytes += std::visit([](const auto& what) { return BytesBehind(what); }, step.what) +
             BytesIn(step.together);
  }
  return bytes + BytesOfTeams(steps.teams);
}

size_t HeldBytes(const Program& program) {
  size_t bytes = sizeof program + BytesIn(program.values()) + BytesIn(program.ops()) +
                 BytesIn(program.inputs()) + BytesIn(program.outputs()) +
                 BytesIn(program.functions());
  std::set<const GivenExtents*> extents;  // each once: values of one layout share them
  for (const ProgramValue& value : program.values()) {
    // Values share few meshes.
    bytes += value.name.size() + BytesIn(value.layout.placements());
    for (const Placement& placement : value.layout.placements()) {
      if (placement.extents == nullptr || !extents.insert(placement.extents.get()).second) continue;
      bytes += placement.extents->HeldBytes();
    }
  }
  for (const std::string& function : program.functions()) bytes += function.size();
  std::set<const Cut*> cuts;  // the same
  for (const ProgramOp& op : program.ops()) {
    const auto* const call = std::get_if<CallOp>(&op.what);
    if (call != nullptr) bytes += BytesIn(call->arguments);
    const auto* const chunk = std::get_if<ChunkOp>(&op.what);
    if (chunk != nullptr && cuts.insert(chunk->cut.get()).second) bytes += chunk->cut->HeldBytes();
  }
  return bytes + TextBytes(program);
}

size_t TextBytes(const Program& program) {
  size_t bytes = 0;
  for (const ProgramOp& op : program.ops()) {
    bytes += op.where.size();
    if (const auto* one = std::get_if<CollectiveOp>(&op.what)) bytes += one->what.axis.size();
    const auto* const call = std::get_if<CallOp>(&op.what);
    if (call == nullptr) continue;
    for (const CallArgument& argument : call->arguments) {
      const auto* const text = std::get_if<std::string>(&argument.literal);
      if (text != nullptr) bytes += text->size();
    }
  }
  return bytes;
}

}  // namespace lockstep::plan
