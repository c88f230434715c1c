#include "services/worker/execute/prepared_program.h"

#include <utility>

#include "runtime/plan/program_codec.h"
#include "runtime/plan/traffic.h"

namespace lockstep::worker {

StatusOr<std::shared_ptr<const PreparedProgram>> PrepareProgram(
    wire::Program::Reader program, Rank rank, int world_size, const plan::Topology& topology,
    const std::function<bool()>& is_given_up) {
  LOCKSTEP_ASSIGN_OR_RETURN(plan::Program read, plan::ReadProgram(program, world_size));
  LOCKSTEP_ASSIGN_OR_RETURN(
      plan::LoweredProgram lowered,
      plan::LowerProgram(std::make_shared<const plan::Program>(std::move(read)), topology,
                         plan::CostModel(), is_given_up));
  plan::ProgramSteps steps = plan::ExpandProgram(lowered, rank);
  return std::make_shared<const PreparedProgram>(
      PreparedProgram{std::move(lowered), std::move(steps)});
}

}  // namespace lockstep::worker
