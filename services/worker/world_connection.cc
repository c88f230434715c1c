#include "services/worker/world_connection.h"

#include <chrono>

#include "runtime/base/deadline.h"
#include "services/worker/backends.h"
#include "services/worker/join/addresses.h"

namespace lockstep::worker {
namespace {

constexpr std::chrono::hours kUntilBroken{24 * 365};

}  // namespace

Status WorldConnection::Connect(const Membership& membership,
                                std::shared_ptr<collective::Rendezvous> rendezvous,
                                const std::atomic<bool>& cancelled, const GpuSetup::Users& users,
                                std::function<void(const Status& why)> on_trouble) {
  WorldOptions options;
  options.arena = arena_;
  options.rendezvous = std::move(rendezvous);
  options.data_address = [this](const std::string& backend, bool can_encrypt) {
    return DataAddress(options_, backend, can_encrypt);
  };
  options.data_encryption = options_.data_encryption;
  options.data_plaintext = options_.data_plaintext;
  options.nccl_library = options_.nccl_library;
  options.on_trouble = std::move(on_trouble);
  LOCKSTEP_ASSIGN_OR_RETURN(options.with_gpus,
                            gpu_setup_.Take(membership, *options.rendezvous, cancelled, users));
  options.gpu = gpu_setup_.gpu();
  LOCKSTEP_ASSIGN_OR_RETURN(ConnectedWorld world, ConnectWorld(membership, options, cancelled,
                                                               Deadline::After(kUntilBroken)));
  cpus_ = std::move(world.communicator);
  gpus_ = std::move(world.gpus);
  why_ = std::move(world.why);
  nodes_ = std::move(world.nodes);
  return OkStatus();
}

}  // namespace lockstep::worker
