// The list of communicator backends: the one place that names them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/nccl/nccl.h"
#include "runtime/collective/rendezvous.h"
#include "runtime/tensor/arena.h"
#include "services/worker/gpu/gpu_side.h"
#include "services/worker/join/membership.h"

namespace lockstep::worker {

// OK if this machine has what some backend needs; kUnavailable lists what each lacks.
Status AnyBackendAvailable();

struct ConnectedWorld {
  std::unique_ptr<collective::Communicator> communicator;
  // Between the ranks' GPUs; null: no rank has one.
  std::unique_ptr<collective::nccl::World> gpus;
  // How it was chosen, for people.
  std::string why;
};

// What connecting needs besides the rank's membership.
struct WorldOptions {
  std::shared_ptr<tensor::Arena> arena;
  std::shared_ptr<collective::Rendezvous> rendezvous;
  // Where this rank listens for ranks that share no memory with it. Asked only if there are any.
  std::function<StatusOr<std::string>()> data_address;
  // This rank's GPU; null: it has none. `with_gpus`: some rank has one, the same on all.
  GpuSide* gpu = nullptr;
  bool with_gpus = false;
  std::string nccl_library;
  // Told when ranks do not reach each other, and all try again.
  std::function<void(const Status& why)> on_trouble;
};

// Connects this rank with all others, by what each pair of them can do: see topology.h. Errors:
//   kFailedPrecondition  the backend that the operator has chosen cannot connect these ranks
//   kUnavailable         lists what each backend lacks, or names a rank that ended
//   kDeadlineExceeded    names the ranks that did not come
//   kAborted             `cancelled`
StatusOr<ConnectedWorld> ConnectWorld(const Membership& membership, const WorldOptions& options,
                                      const std::atomic<bool>& cancelled, Deadline deadline);

// Before a worker ends, without any communicator left: ends what backends have begun in its process
// and begin only once. Takes some seconds where other processes do not do the same.
void EndBackends();

}  // namespace lockstep::worker
