#include "runtime/collective/gloo/gloo.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <utility>

#include <gloo/transport/tcp/device.h>

#include "runtime/collective/gloo/gloo_transport.h"

namespace lockstep::collective::gloo {

namespace {

// Gloo writes to connections that a peer may have closed; without this the process would die of it.
void IgnoreBrokenPipes() {
  struct sigaction action = {};
  if (sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) {
    std::signal(SIGPIPE, SIG_IGN);
  }
}

}  // namespace

Status Available() {
  for (const int family : {AF_INET, AF_INET6}) {
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    close(fd);
    return OkStatus();
  }
  return Unavailable("there is no TCP here: ", std::strerror(errno));
}

StatusOr<std::unique_ptr<message::MessageCommunicator>> Connect(
    const Options& options, Deadline deadline, const std::atomic<bool>* cancelled) {
  if (options.rank < 0 || options.rank >= options.size) {
    return InvalidArgument("there is no rank ", options.rank, " of ", options.size);
  }
  if (options.rendezvous == nullptr) return InvalidArgument("the ranks have no rendezvous");
  IgnoreBrokenPipes();
  auto network = std::make_shared<Network>();
  network->rendezvous = options.rendezvous;
  try {
    ::gloo::transport::tcp::attr attributes;
    attributes.hostname = options.address;
    network->device = ::gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& error) {
    // The others are still to be told.
    network->status = Unavailable("cannot listen at \"", options.address,
                                  "\" for the other ranks: ", error.what());
  }
  const auto world = message::Team::OfWorld(options.world, options.size, options.rank);
  LOCKSTEP_ASSIGN_OR_RETURN(auto transport,
                            GlooTransport::Connect(std::move(network), world, cancelled, deadline));
  return std::make_unique<message::MessageCommunicator>(std::move(transport), world.members);
}

}  // namespace lockstep::collective::gloo
