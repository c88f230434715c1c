// Finding an MPI while the program runs.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "runtime/collective/mpi/shim.h"

namespace lockstep::collective::mpi {

// Loads liblockstep_mpi.so (see shim.h) and the MPI that it was built with: the file that
// $LOCKSTEP_MPI_LIBRARY names, if it is set; else the one beside the running program; else wherever
// the dynamic linker finds one. It stays loaded. kUnavailable says what was tried.
// Threads: safe.
StatusOr<const lockstep_mpi*> LoadLibrary();

// What an error code of its functions means.
std::string Explain(const lockstep_mpi& mpi, int code);

}  // namespace lockstep::collective::mpi
