#include "services/worker/execute/program_cache.h"

#include <utility>

namespace lockstep::worker {

void ProgramCache::SetWorld(PlanWorld world) {
  // A world that is like the one before has the same plans.
  if (world == world_) return;
  world_ = std::move(world);
  entries_.Clear();
}

StatusOr<std::shared_ptr<const PreparedProgram>> ProgramCache::Prepare(
    const plan::EncodedProgram& program, const std::function<bool()>& is_given_up) {
  const Entry* const known =
      entries_.Use([&](const Entry& entry) { return entry.program == program; });
  if (known != nullptr) return known->prepared;
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedProgram> prepared,
                            PrepareProgram(program, world_, is_given_up));
  entries_.Add({program, prepared}, program.size_bytes() + prepared->HeldBytes());
  return prepared;
}

}  // namespace lockstep::worker
