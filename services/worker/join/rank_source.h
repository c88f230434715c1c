// Where a worker's rank comes from when no setting gives its number.
#pragma once

#include <functional>
#include <string>

#include "runtime/base/status.h"
#include "services/worker/options.h"

namespace lockstep::worker {

// What a worker can see of where it was started.
struct Surroundings {
  std::string host_name;
  // The value of an environment variable, or null.
  std::function<const char*(const char*)> variable;
};
Surroundings ThisProcess();

// The rank to ask for, as Hello.rank has it: options.rank, or, by options.rank_from:
//   "hostname"  the number at the end of the host's name, as in a Kubernetes StatefulSet: workers-3
//   "slurm"     $SLURM_PROCID
//   "mpi"       what mpirun has set: $OMPI_COMM_WORLD_RANK, $PMIX_RANK, $PMI_RANK or
//               $MV2_COMM_WORLD_RANK
// each plus options.rank_offset, from which on any rank will do where neither is given.
// kInvalidArgument names what is missing, or that it is no number.
StatusOr<int> ChooseRank(const WorkerOptions& options, const Surroundings& surroundings);

}  // namespace lockstep::worker
