#include "services/worker/execute/program_cache.h"

#include <utility>

namespace lockstep::worker {

void ProgramCache::SetWorld(Rank rank, int world_size, plan::Topology topology) {
  // A world that is like the one before has the same plans.
  if (rank == rank_ && world_size == world_size_ && topology == topology_) return;
  rank_ = rank;
  world_size_ = world_size;
  topology_ = std::move(topology);
  entries_.Clear();
}

StatusOr<std::shared_ptr<const PreparedProgram>> ProgramCache::Prepare(
    const plan::EncodedProgram& program, const std::function<bool()>& is_given_up) {
  const Entry* const known =
      entries_.Use([&](const Entry& entry) { return entry.program == program; });
  if (known != nullptr) return known->prepared;
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedProgram> prepared,
                            PrepareProgram(program, rank_, world_size_, topology_, is_given_up));
  entries_.Add({program, prepared}, program.size_bytes() + prepared->HeldBytes());
  return prepared;
}

}  // namespace lockstep::worker
