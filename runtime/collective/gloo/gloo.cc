#include "runtime/collective/gloo/gloo.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <utility>

#include <gloo/transport/tcp/device.h>

#include "absl/cleanup/cleanup.h"
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

// OK if this host can listen at `address`. Gloo says that it cannot by an exception alone, which
// leaks memory and leaves out why.
Status TryToListenAt(const std::string& address) {
  if (address.empty()) return OkStatus();
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int unknown = getaddrinfo(address.c_str(), nullptr, &hints, &found);
  if (unknown != 0) return Unavailable(gai_strerror(unknown));
  const absl::Cleanup let_go = [found] { freeaddrinfo(found); };
  int error = EADDRNOTAVAIL;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int fd = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool bound = fd >= 0 && bind(fd, one->ai_addr, one->ai_addrlen) == 0;
    if (!bound) error = errno;
    if (fd >= 0) close(fd);
    if (bound) return OkStatus();
  }
  return Unavailable(std::strerror(error));
}

// The device, which listens at `address`; its name is looked up if it is empty.
StatusOr<std::shared_ptr<::gloo::transport::Device>> MakeDevice(const std::string& address) {
  LOCKSTEP_RETURN_IF_ERROR(TryToListenAt(address));
  try {
    ::gloo::transport::tcp::attr attributes;
    attributes.hostname = address;
    return ::gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& error) {
    return Unavailable(error.what());
  }
}

}  // namespace

StatusOr<std::unique_ptr<message::MessageCommunicator>> Connect(
    const message::NetworkOptions& options, Deadline deadline, const std::atomic<bool>* cancelled) {
  LOCKSTEP_RETURN_IF_ERROR(message::CheckOptions(options));
  IgnoreBrokenPipes();
  auto network = std::make_shared<Network>();
  network->rendezvous = options.rendezvous;
  if (auto device = MakeDevice(options.address); device.ok()) {
    network->device = *std::move(device);
  } else {  // the others are still to be told
    network->status = Unavailable("cannot listen at \"", options.address,
                                  "\" for the other ranks: ", Message(device.status()));
  }
  const auto world = message::Team::OfWorld(options.world, options.size, options.rank);
  LOCKSTEP_ASSIGN_OR_RETURN(auto transport,
                            GlooTransport::Connect(std::move(network), world, cancelled, deadline));
  return std::make_unique<message::MessageCommunicator>(std::move(transport), world.members);
}

}  // namespace lockstep::collective::gloo
