// The backend for GPUs: NCCL (RCCL builds from the same source).
//
// An operation has two halves. On the host, the ranks first agree by the communicator of their
// CPUs: who does not come, calls something else, or ended, is found out and told there as for any
// backend, and nothing reaches a GPU of which not all ranks are sure. Then the operation is put
// into the communication stream, and returns; its result is there in the stream's order
// (cuda::StreamPair). What goes wrong from then on, DeviceConnection::Health() tells.
//
// Where the results differ from other backends': sums of float16 and bfloat16 are rounded by NCCL
// at every addition; min and max of NaNs are NCCL's; and the order in which ranks are combined is
// NCCL's choice, the same on every rank. float8 is reduced as well, by NCCL from 2.24 on GPUs from
// Hopper on.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/device_communicator.h"
#include "runtime/collective/nccl/communicator_slots.h"
#include "runtime/collective/nccl/endings.h"
#include "runtime/collective/nccl/memory.h"
#include "runtime/collective/rendezvous.h"
#include "runtime/cuda/stream_pair.h"
#include "runtime/tensor/storage.h"

namespace lockstep::collective::nccl {

struct Options {
  // Where operations are put into, on this rank's GPU; null: this rank has none.
  std::shared_ptr<cuda::StreamPair> streams;
  // Memory of that GPU, for what operations work in; none of it is registered.
  std::shared_ptr<tensor::Allocator> allocator;
  // Called before NCCL may allocate memory of its own, which it does with a communicator's first
  // uses, too: gives back what `allocator` keeps, and may wait for it, within the limit. May be
  // empty.
  std::function<void(const WaitLimit&)> make_room = {};
  // Counts the communicators of this rank's GPU, also of worlds that were; null: they are not
  // counted, and there may be any number.
  std::shared_ptr<CommunicatorSlots> slots = nullptr;
  // What all communicators register; may be null.
  std::shared_ptr<RegisteredMemory> registered = nullptr;
  // Tells the machine with this rank's GPU from others, and is the same in all of its containers;
  // empty: the host's name does.
  std::string machine = {};
  // Connects the CPUs of the same ranks. Borrowed until Connect() returns.
  Communicator* host = nullptr;
  // How the ranks tell each other NCCL's unique id, under `key`.
  std::shared_ptr<Rendezvous> rendezvous;
  uint64_t key = 0;
  // The file to load NCCL from; empty: wherever the dynamic linker finds libnccl.so.2.
  std::string library = {};
};

// OK if this build and this machine have NCCL. kUnavailable says what is missing, and how to get
// it.
Status Available(const std::string& library = "");

// "2.28.9"; empty: there is none.
std::string Version(const std::string& library = "");

// The host by which NCCL tells GPUs of the same number apart: NCCL's documented variable
// NCCL_HOSTID says otherwise if it is set, to let several ranks work on one GPU.
std::string HostName(const std::string& otherwise);

// Connects this rank's GPU with those of all others in `options.host`. Ranks without one call it,
// too.
//
// Errors:
//   kUnavailable         see Available(); a network or GPU that does not work; names what and whose
//   kFailedPrecondition  two ranks have the same GPU
//   kDeadlineExceeded    names the ranks that did not come
//   kAborted             `cancelled`
StatusOr<std::unique_ptr<DeviceWorld>> Connect(const Options& options, Deadline deadline,
                                               const std::atomic<bool>* cancelled = nullptr);

}  // namespace lockstep::collective::nccl
