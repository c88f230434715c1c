#include "runtime/control/zmq/endpoint.h"

#include "runtime/control/local_address.h"

namespace lockstep::control {
namespace {

bool StartsWith(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

}  // namespace

StatusOr<std::string> WhereToListen(const std::string& endpoint, bool has_gate) {
  // Such a name has no mode: any user of this host gets in.
  if (StartsWith(endpoint, "ipc://@")) {
    return InvalidArgument(
        "will not listen on \"", endpoint,
        "\", which every user of this host can reach; give a path: ", kExpectedEndpoint);
  }
  // ZeroMQ knows more transports than ours; who can reach those has not been considered.
  if (StartsWith(endpoint, "inproc://") || StartsWith(endpoint, "ipc://")) return endpoint;
  if (!StartsWith(endpoint, "tcp://") || endpoint.find(':', 6) == std::string::npos) {
    return InvalidArgument("cannot listen on \"", endpoint, "\"; ", kExpectedEndpoint);
  }
  const std::string host = HostOf(endpoint);
  LOCKSTEP_RETURN_IF_ERROR(CheckMayListenAt(host, has_gate));
  if (IsAnyAddress(host)) return endpoint;
  const StatusOr<std::string> address = LocalAddress(host);
  if (!address.ok()) {
    return Annotate(address.status(), "cannot listen on \"" + endpoint + "\"");
  }
  // A name may stand for another address than people think.
  LOCKSTEP_RETURN_IF_ERROR(CheckMayListenAt(*address, has_gate));
  return WithHost(endpoint, *address);
}

std::string WithPlainIpv4(std::string endpoint) {
  constexpr char kMapped[] = "tcp://[::ffff:";
  const size_t bracket = endpoint.find(']');
  if (!StartsWith(endpoint, kMapped) || bracket == std::string::npos) return endpoint;
  endpoint.erase(bracket, 1);
  return endpoint.replace(0, sizeof kMapped - 1, "tcp://");
}

}  // namespace lockstep::control
