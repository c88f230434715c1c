// The backend for jobs of an MPI launcher (mpirun, srun): messages between CPU ranks, by whatever
// network MPI uses.
//
// MPI is used as a transport alone: operations, their checks and their reductions are those of
// runtime/collective/message. All communicators share one of MPI's, which is made when MPI begins;
// so making, aborting and losing ours needs nothing from it, and no wait for other processes is
// without an end. What MPI cannot do remains: a process that dies ends the whole job, no process
// can join a job later, and MPI begins and ends once in a process. Nothing is encrypted or
// authenticated here but what MPI does itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/message/message_communicator.h"
#include "runtime/collective/rendezvous.h"

namespace lockstep::collective::mpi {

struct Options {
  Rank rank = 0;
  int size = 1;
  // Tells worlds apart that meet at one rendezvous: the same on all ranks.
  uint64_t world = 0;
  std::shared_ptr<Rendezvous> rendezvous;
};

// OK if there is an MPI (see library.h) and this process is one of an MPI job, else kUnavailable
// with what is missing.
Status Available();

// Connects this rank with all others. The world is a whole MPI job, a process for each rank; their
// numbers in it may differ from the ranks. `cancelled`, if given, ends the wait as soon as it is
// true.
//
// Errors: kInvalidArgument     options that cannot be
//         kFailedPrecondition  the ranks are not those of one MPI job, or MPI is missing; the
//                              message names who, and all ranks get it
//         kUnavailable         MPI does not work
//         kDeadlineExceeded    names the ranks that did not come, or says that MPI does not begin
//         kAborted             `cancelled`
StatusOr<std::unique_ptr<message::MessageCommunicator>> Connect(
    const Options& options, Deadline deadline, const std::atomic<bool>* cancelled = nullptr);

// Ends this process's part in its MPI job, if Connect() has begun it; for good. To be called before
// the process ends, or mpirun takes it to have died. kDeadlineExceeded if the other processes do
// not do the same by then; kUnavailable if MPI has failed.
Status LeaveJob(Deadline deadline);

}  // namespace lockstep::collective::mpi
