#include "runtime/collective/mpi/launcher.h"

#include <algorithm>
#include <cstdlib>
#include <string>

namespace lockstep::collective::mpi {

const std::vector<const char*>& RankVariables() {
  // Open MPI; whatever uses PMIx; MPICH, Intel MPI and Slurm's PMI; MVAPICH2.
  static const std::vector<const char*> variables = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                                     "PMI_RANK", "MV2_COMM_WORLD_RANK"};
  return variables;
}

Status CheckStartedByLauncher() {
  const std::vector<const char*>& variables = RankVariables();
  if (std::any_of(variables.begin(), variables.end(),
                  [](const char* name) { return std::getenv(name) != nullptr; })) {
    return OkStatus();
  }
  std::string list;
  for (const char* const name : variables) list += (list.empty() ? "$" : ", $") + std::string(name);
  return Unavailable("not started by mpirun or srun: none of ", list, " is set");
}

std::optional<int> JobSize() {
  for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    const char* const value = std::getenv(name);
    const int size = value == nullptr ? 0 : std::atoi(value);
    if (size > 0) return size;
  }
  return std::nullopt;
}

}  // namespace lockstep::collective::mpi
