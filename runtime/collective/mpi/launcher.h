// What launchers of MPI jobs (mpirun, srun) tell the processes that they start.
#pragma once

#include <optional>
#include <vector>

#include "runtime/base/status.h"

namespace lockstep::collective::mpi {

// The environment variables of which one has the process's rank in its job.
const std::vector<const char*>& RankVariables();

// OK if this process is one of a job. A process that is not could be a job of its own, alone; some
// MPIs end it when it tries.
Status CheckStartedByLauncher();

// How many processes the job has, if the launcher tells.
std::optional<int> JobSize();

}  // namespace lockstep::collective::mpi
