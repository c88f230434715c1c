// The list of communicator backends: the one place that connects by them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/device.h"
#include "runtime/collective/device_communicator.h"
#include "runtime/collective/rendezvous.h"
#include "runtime/tensor/arena.h"
#include "services/worker/join/membership.h"
#include "services/worker/options.h"

namespace lockstep::worker {

// OK if this machine has what some backend needs; kUnavailable lists what each lacks.
Status AnyBackendAvailable();

struct ConnectedWorld {
  std::unique_ptr<collective::Communicator> communicator;
  // Between the ranks' GPUs; null: no rank has one.
  std::unique_ptr<collective::DeviceWorld> gpus;
  // How it was chosen, for people.
  std::string why;
  // The node of each rank, by rank.
  std::vector<int> nodes = {};
};

// What connecting needs besides the rank's membership.
struct WorldOptions {
  std::shared_ptr<tensor::Arena> arena;
  std::shared_ptr<collective::Rendezvous> rendezvous;
  // Where this rank listens for ranks that share no memory with it, and that `backend` connects it
  // with. Asked only if there are any.
  std::function<StatusOr<std::string>(const std::string& backend, bool can_encrypt)> data_address;
  // The worker's settings of these names.
  std::string data_encryption = "auto";
  std::string data_plaintext = "loopback";
  // This rank's GPU; null: it has none. `with_gpus`: some rank has one, the same on all.
  collective::Accelerator* gpu = nullptr;
  bool with_gpus = false;
  std::string nccl_library;
  // Told when ranks do not reach each other, and all try again.
  std::function<void(const Status& why)> on_trouble;
};

// Connects this rank with all others, by what each pair of them can do: see join/topology.h.
// Errors:
//   kFailedPrecondition  the backend that the operator has chosen cannot connect these ranks
//   kUnavailable         lists what each backend lacks, or names a rank that ended
//   kDeadlineExceeded    names the ranks that did not come
//   kAborted             `cancelled`
StatusOr<ConnectedWorld> ConnectWorld(const Membership& membership, const WorldOptions& options,
                                      const std::atomic<bool>& cancelled, Deadline deadline);

// OK if this machine has what the worker is to use (options.device). Prepares this process for it.
Status CheckDevice(const WorkerOptions& options);

// The GPUs that this process sees.
StatusOr<std::vector<collective::DeviceFacts>> ListDevices(const WorkerOptions& options);

// One of those. `describe_memory_use` tells of the sessions' memory, for the error that there is
// none left; it is called by the thread that allocates.
StatusOr<std::shared_ptr<collective::Accelerator>> OpenDevice(
    int index, const WorkerOptions& options, std::function<std::string()> describe_memory_use);

// The same text for all workers of this host, by which GPUs of one name are told apart.
std::string HostOfDevices();

// True once all that GPUs' communicators have begun to end is over.
bool AwaitDeviceEndings(Deadline deadline);

// Before a worker ends, without any communicator left: ends what backends have begun in its process
// and begin only once. Takes some seconds where other processes do not do the same.
void EndBackends();

}  // namespace lockstep::worker
