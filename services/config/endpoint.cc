#include "services/config/endpoint.h"

#include <arpa/inet.h>

#include "runtime/base/quantity.h"

namespace lockstep::config {
namespace {

constexpr std::string_view kTcp = "tcp://";
constexpr std::string_view kIpc = "ipc://";
constexpr std::string_view kInproc = "inproc://";
constexpr std::string_view kHttp = "http://";
constexpr std::string_view kHttpForm = "http://ADDRESS:PORT (* for any free port)";
constexpr std::string_view kForms =
    "tcp://ADDRESS:PORT (* for any free port), ipc:///PATH or inproc://NAME";

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

Status CheckSocketPath(std::string_view path) {
  if (path.empty() || path.front() != '/') {
    return InvalidArgument("\"", path, "\" is not an absolute path; a socket needs one");
  }
  if (path.size() > kMaxSocketPathBytes) {
    return InvalidArgument("the socket path \"", path, "\" has ", path.size(), " bytes, at most ",
                           kMaxSocketPathBytes, " fit; use a shorter directory");
  }
  return OkStatus();
}

bool IsPort(std::string_view text) {
  if (text == "*") return true;
  const StatusOr<int64_t> port = ParseInteger(text);
  return port.ok() && *port >= 0 && *port <= 65535;
}

// Numbers are checked as numbers: "127.example.org" is a name that can mean any host.
bool IsLoopback(std::string_view host) {
  in_addr address{};
  if (inet_pton(AF_INET, std::string(host).c_str(), &address) == 1) {
    return ntohl(address.s_addr) >> 24 == 127;
  }
  // "[::ffff:127.0.0.1]" is how a socket for both protocols tells its IPv4 address.
  in6_addr address6{};
  if (host.front() == '[' && host.back() == ']' &&
      inet_pton(AF_INET6, std::string(host.substr(1, host.size() - 2)).c_str(), &address6) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&address6) ||
           (IN6_IS_ADDR_V4MAPPED(&address6) && address6.s6_addr[12] == 127);
  }
  return host == "localhost" || host == "lo";
}

// `endpoint` is `scheme`, then an address and a port; `allowed` is what an error names.
Status CheckAddress(std::string_view endpoint, std::string_view scheme, std::string_view allowed) {
  const std::string_view address = endpoint.substr(scheme.size());
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || !IsPort(address.substr(colon + 1))) {
    return InvalidArgument("\"", endpoint, "\" is no endpoint; allowed: ", allowed);
  }
  return OkStatus();
}

}  // namespace

Status CheckEndpoint(std::string_view endpoint) {
  if (StartsWith(endpoint, kTcp)) return CheckAddress(endpoint, kTcp, kForms);
  if (StartsWith(endpoint, kIpc)) return CheckSocketPath(endpoint.substr(kIpc.size()));
  if (StartsWith(endpoint, kInproc) && endpoint.size() > kInproc.size()) return OkStatus();
  return InvalidArgument("\"", endpoint, "\" is no endpoint; allowed: ", kForms);
}

Status CheckHttpEndpoint(std::string_view endpoint) {
  if (StartsWith(endpoint, kHttp)) return CheckAddress(endpoint, kHttp, kHttpForm);
  return InvalidArgument("\"", endpoint, "\" is no endpoint; allowed: ", kHttpForm);
}

bool StaysOnThisHost(std::string_view endpoint) {
  const std::string_view scheme = StartsWith(endpoint, kHttp) ? kHttp : kTcp;
  if (!StartsWith(endpoint, scheme)) return true;
  const std::string_view address = endpoint.substr(scheme.size());
  return IsLoopback(address.substr(0, address.rfind(':')));
}

bool IsWildcard(std::string_view host) {
  return host == "*" || host == "0.0.0.0" || host == "::" || host == "[::]";
}

Status CheckReachedFromOthers(std::string_view endpoint, bool advertised) {
  constexpr std::string_view kWrite =
      "write tcp://ADDRESS:PORT (PORT may be *), where ADDRESS is an address, a network "
      "(10.1.0.0/16) or an interface of this host that the other hosts reach";
  if (endpoint.empty()) return InvalidArgument("missing, but there are other hosts; ", kWrite);
  if (!StartsWith(endpoint, kTcp)) {
    return InvalidArgument("\"", endpoint, "\" is not for other hosts; ", kWrite);
  }
  if (advertised) return OkStatus();
  const std::string_view address = endpoint.substr(kTcp.size());
  const std::string_view host = address.substr(0, address.rfind(':'));
  if (IsWildcard(host)) {
    return InvalidArgument("\"", endpoint,
                           "\" does not say at which address other hosts reach it; ", kWrite,
                           ", or set controller.advertise_address");
  }
  if (IsLoopback(host)) {
    return InvalidArgument("\"", endpoint, "\" is not for other hosts; ", kWrite,
                           ", or set controller.advertise_address if something leads them here");
  }
  return OkStatus();
}

StatusOr<std::string> IpcEndpoint(const std::string& path) {
  LOCKSTEP_RETURN_IF_ERROR(CheckSocketPath(path));
  return std::string(kIpc) + path;
}

}  // namespace lockstep::config
