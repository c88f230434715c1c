#include "services/worker/execute/prepared_program.h"

#include <utility>

#include "runtime/base/log.h"
#include "runtime/plan/lowering/traffic.h"
#include "runtime/plan/steps/check_steps.h"
#include "runtime/plan/steps/held_bytes.h"

namespace lockstep::worker {

size_t PreparedProgram::HeldBytes() const {
  size_t bytes = sizeof *this + plan::HeldBytes(*lowered.program) + plan::HeldBytes(steps) +
                 lowered.lies_in.size() * sizeof(plan::ValueId) + order.size() * sizeof(size_t);
  for (const std::string& note : lowered.notes) bytes += sizeof(std::string) + note.size();
  for (const std::string& place : places) bytes += sizeof(std::string) + place.size();
  return bytes;
}

StatusOr<std::shared_ptr<const PreparedProgram>> PrepareProgram(
    const plan::EncodedProgram& program, const PlanWorld& world,
    const std::function<bool()>& is_given_up) {
  LOCKSTEP_ASSIGN_OR_RETURN(plan::Program read, plan::Decode(program, world.world_size));
  LOCKSTEP_ASSIGN_OR_RETURN(
      plan::LoweredProgram lowered,
      plan::LowerProgram(std::make_shared<const plan::Program>(std::move(read)), world.topology,
                         plan::CostModel(), is_given_up));
  LOCKSTEP_ASSIGN_OR_RETURN(
      plan::ProgramSteps steps,
      plan::ExpandProgram(
          lowered, world.rank,
          {.lanes_overlap = world.lanes_overlap, .same_offsets = world.same_offsets}, is_given_up));
  LOCKSTEP_RETURN_IF_ERROR(plan::CheckSteps(*lowered.program, steps, world.rank));
  if (world.same_offsets && !steps.same_offsets && steps.arena_bytes > 0) {
    log::Info(
        "a plan has too many steps on all ranks together for its memory to be at the same offsets "
        "on all of them: the backend copies where it could use registered memory");
  }
  std::vector<size_t> order;
  for (const plan::LoweredOp& op : lowered.ops) order.push_back(op.op);
  std::vector<std::string> places;
  for (const plan::ProgramStep& step : steps.steps) {
    places.push_back(plan::LinesOf(*lowered.program, step));
  }
  // What all other ranks exchange grows with their number, and is of no use here any more.
  lowered.ops = {};
  return std::make_shared<const PreparedProgram>(PreparedProgram{
      std::move(lowered), std::move(steps), program.key, std::move(order), std::move(places)});
}

}  // namespace lockstep::worker
