#include "runtime/control/zmq/endpoint.h"

#include "runtime/control/local_address.h"

namespace lockstep::control {
namespace {

bool StartsWith(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

}  // namespace

StatusOr<std::string> WhereToListen(const std::string& endpoint, bool has_gate) {
  // ZeroMQ knows more transports than ours, and nobody has thought about who can reach those.
  if (StartsWith(endpoint, "inproc://") || StartsWith(endpoint, "ipc://")) return endpoint;
  if (!StartsWith(endpoint, "tcp://") || endpoint.find(':', 6) == std::string::npos) {
    return InvalidArgument("cannot listen on \"", endpoint, "\"; ", kExpectedEndpoint);
  }
  const std::string host = HostOf(endpoint);
  LOCKSTEP_RETURN_IF_ERROR(CheckMayListenAt(host, has_gate));
  if (IsAnyAddress(host)) return endpoint;
  const StatusOr<std::string> address = LocalAddress(host);
  if (address.ok()) return WithHost(endpoint, *address);
  return Annotate(address.status(), "cannot listen on \"" + endpoint + "\"");
}

std::string WithPlainIpv4(std::string endpoint) {
  constexpr char kMapped[] = "tcp://[::ffff:";
  const size_t bracket = endpoint.find(']');
  if (!StartsWith(endpoint, kMapped) || bracket == std::string::npos) return endpoint;
  endpoint.erase(bracket, 1);
  return endpoint.replace(0, sizeof kMapped - 1, "tcp://");
}

}  // namespace lockstep::control
