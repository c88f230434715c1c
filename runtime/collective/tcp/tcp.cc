#include "runtime/collective/tcp/tcp.h"

#include <utility>

#include "runtime/collective/tcp/mesh.h"
#include "runtime/collective/tcp/sealing/cipher.h"
#include "runtime/collective/tcp/tcp_transport.h"

namespace lockstep::collective::tcp {

StatusOr<std::unique_ptr<message::MessageCommunicator>> Connect(
    const message::NetworkOptions& options, const Protection& protection, Deadline deadline,
    const std::atomic<bool>* cancelled) {
  LOCKSTEP_RETURN_IF_ERROR(message::CheckOptions(options));
  auto network = std::make_shared<Network>();
  network->address = options.address;
  network->rendezvous = options.rendezvous;
  network->protection = protection;
  const auto world = message::Team::OfWorld(options.world, options.size, options.rank);
  LOCKSTEP_ASSIGN_OR_RETURN(auto transport,
                            TcpTransport::Connect(std::move(network), world, cancelled, deadline));
  return std::make_unique<message::MessageCommunicator>(std::move(transport), world.members);
}

Status CanEncrypt() { return Cipher::Available(); }

}  // namespace lockstep::collective::tcp
