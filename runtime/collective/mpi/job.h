// This process's part in an MPI job. There is one in a process, for MPI begins and ends once.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/collective/mpi/frames.h"

namespace lockstep::collective::mpi {

// Threads: safe.
class Job {
 public:
  // Takes part, if this process does not yet. MPI waits until all processes of the job have come,
  // which is waited for in its own thread: who gave up may ask again. The job lives until the
  // process ends. Errors:
  //   kUnavailable         MPI cannot be loaded, does not work, or this process has left the job
  //   kDeadlineExceeded    others did not come, by `deadline` or in a time that is long for MPI
  //   kAborted             `cancelled` (null: never)
  static StatusOr<Job*> Enter(const std::atomic<bool>* cancelled, Deadline deadline);

  // Ends this process's part, if it has one; for good. MPI waits for all processes here, too.
  // kDeadlineExceeded if others do not end: the process should, and its launcher ends the job.
  static Status Leave(Deadline deadline);

  // The same in all processes of the job, and in no other's.
  uint64_t id() const { return id_; }
  // This process's number in it, from 0 to size() - 1.
  int process() const { return process_; }
  int size() const { return size_; }
  Frames& frames() { return *frames_; }

 private:
  class State;

  explicit Job(const lockstep_mpi& mpi) : mpi_(mpi) {}
  // On the job's thread, as the others.
  Status Begin();
  void KeepGoing(State& state);
  Status End();

  const lockstep_mpi& mpi_;
  uint64_t id_ = 0;
  int process_ = 0;
  int size_ = 0;
  std::unique_ptr<Frames> frames_;
};

}  // namespace lockstep::collective::mpi
