#include "runtime/control/zmq/endpoint.h"

namespace lockstep::control {
namespace {

bool StartsWith(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

}  // namespace

Status CheckMayListen(const std::string& endpoint) {
  // ZeroMQ knows more transports than ours, and nobody has thought about who can reach those.
  if (StartsWith(endpoint, "inproc://") || StartsWith(endpoint, "ipc://")) return OkStatus();
  constexpr char kTcp[] = "tcp://";
  if (!StartsWith(endpoint, kTcp)) {
    return InvalidArgument("cannot listen on \"", endpoint, "\"; ", kExpectedEndpoint);
  }
  const std::string address = endpoint.substr(sizeof kTcp - 1);
  for (const char* loopback : {"127.", "localhost:", "[::1]:", "lo:"}) {
    if (StartsWith(address, loopback)) return OkStatus();
  }
  return PermissionDenied("will not listen on ", endpoint,
                          ": connections are not authenticated, so only loopback (127.0.0.0/8, "
                          "[::1]), ipc:// and inproc:// are allowed");
}

std::string WithPlainIpv4(std::string endpoint) {
  constexpr char kMapped[] = "tcp://[::ffff:";
  const size_t bracket = endpoint.find(']');
  if (!StartsWith(endpoint, kMapped) || bracket == std::string::npos) return endpoint;
  endpoint.erase(bracket, 1);
  return endpoint.replace(0, sizeof kMapped - 1, "tcp://");
}

}  // namespace lockstep::control
