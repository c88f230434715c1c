#include "runtime/control/local_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

namespace lockstep::control {
namespace {

constexpr char kTcp[] = "tcp://";

// An address as bytes: 4 or 16 of them.
using Bytes = std::vector<uint8_t>;

std::optional<Bytes> Parse(const std::string& address) {
  Bytes bytes(16);
  if (inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1) return bytes;
  bytes.resize(4);
  if (inet_pton(AF_INET, address.c_str(), bytes.data()) == 1) return bytes;
  return std::nullopt;
}

Bytes BytesOf(const sockaddr& address) {
  const uint8_t* begin = nullptr;
  size_t size = 0;
  if (address.sa_family == AF_INET) {
    begin =
        reinterpret_cast<const uint8_t*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr);
    size = 4;
  } else {
    begin =
        reinterpret_cast<const uint8_t*>(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
    size = 16;
  }
  return {begin, begin + size};
}

std::string Digits(const Bytes& bytes) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(bytes.size() == 4 ? AF_INET : AF_INET6, bytes.data(), text, sizeof text);
  return text;
}

struct Interface {
  std::string name;
  Bytes address;
};

// Those that are up. Link-local IPv6 addresses mean nothing without their interface, and are left
// out.
std::vector<Interface> Interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Bytes address = BytesOf(*one->ifa_addr);
    if (family == AF_INET6 && address[0] == 0xfe && (address[1] & 0xc0) == 0x80) continue;
    found.push_back({one->ifa_name, std::move(address)});
  }
  return found;
}

std::string ListOf(const std::vector<Interface>& interfaces) {
  std::string text;
  for (const Interface& one : interfaces) {
    text += (text.empty() ? "" : ", ") + one.name + " " + Digits(one.address);
  }
  return text.empty() ? "none" : text;
}

bool IsIn(const Bytes& address, const Bytes& network, int bits) {
  if (address.size() != network.size()) return false;
  for (size_t i = 0; i < address.size(); ++i, bits -= 8) {
    if (bits <= 0) return true;
    const auto mask = static_cast<uint8_t>(bits >= 8 ? 0xff : 0xff << (8 - bits));
    if ((address[i] & mask) != (network[i] & mask)) return false;
  }
  return true;
}

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

StatusOr<AddressList> Resolve(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), "9", &hints, &list);
  if (error != 0) return Unavailable("\"", host, "\" cannot be resolved: ", gai_strerror(error));
  return AddressList(list, freeaddrinfo);
}

// The address in `network`, written ADDRESS/BITS.
StatusOr<std::string> AddressInNetwork(const std::string& network,
                                       const std::vector<Interface>& interfaces) {
  const size_t slash = network.find('/');
  const std::optional<Bytes> base = Parse(network.substr(0, slash));
  int bits = -1;
  const char* const end = network.data() + network.size();
  const auto parsed = std::from_chars(network.data() + slash + 1, end, bits);
  if (!base.has_value() || parsed.ec != std::errc() || parsed.ptr != end || bits < 0 ||
      bits > static_cast<int>(base->size()) * 8) {
    return InvalidArgument("\"", network, "\" is no network; expected one such as 10.1.0.0/16");
  }
  for (const Interface& one : interfaces) {
    if (IsIn(one.address, *base, bits)) return Digits(one.address);
  }
  return InvalidArgument("this host has no address in ", network, "; it has ", ListOf(interfaces));
}

}  // namespace

StatusOr<std::string> LocalAddress(const std::string& wanted) {
  const std::vector<Interface> interfaces = Interfaces();
  if (wanted.find('/') != std::string::npos) return AddressInNetwork(wanted, interfaces);
  const std::optional<Bytes> address = Parse(wanted);
  for (const Interface& one : interfaces) {
    if (address.has_value() && one.address == *address) return Digits(*address);
  }
  if (address.has_value() && IsLoopbackAddress(wanted)) return wanted;  // all of 127.0.0.0/8 is
  if (address.has_value()) {
    return InvalidArgument("this host has no address ", wanted, "; it has ", ListOf(interfaces));
  }
  for (const size_t size : {size_t{4}, size_t{16}}) {
    for (const Interface& one : interfaces) {
      if (one.name == wanted && one.address.size() == size) return Digits(one.address);
    }
  }
  const StatusOr<AddressList> resolved = Resolve(wanted);
  for (const addrinfo* one = resolved.ok() ? resolved->get() : nullptr; one != nullptr;
       one = one->ai_next) {
    const Bytes bytes = BytesOf(*one->ai_addr);
    for (const Interface& interface : interfaces) {
      if (interface.address == bytes) return Digits(bytes);
    }
  }
  return InvalidArgument("\"", wanted,
                         "\" is no interface, network, address or name of this host; ", "it has ",
                         ListOf(interfaces));
}

StatusOr<std::string> LocalAddressTowards(const std::string& host) {
  LOCKSTEP_ASSIGN_OR_RETURN(const AddressList list, Resolve(host));
  int error = 0;
  for (const addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
    const int fd = socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    // Connecting a datagram socket sends nothing, and chooses the address to send from.
    sockaddr_storage self = {};
    socklen_t size = sizeof self;
    auto* const address = reinterpret_cast<sockaddr*>(&self);
    const bool found =
        connect(fd, one->ai_addr, one->ai_addrlen) == 0 && getsockname(fd, address, &size) == 0;
    if (!found) error = errno;
    close(fd);
    if (found) return Digits(BytesOf(*address));
  }
  return Unavailable("there is no way to \"", host, "\": ", std::strerror(error));
}

bool IsLoopbackAddress(const std::string& address) {
  const std::optional<Bytes> bytes = Parse(address);
  if (!bytes.has_value()) return false;
  if (bytes->size() == 4) return bytes->front() == 127;
  Bytes one(16);
  one.back() = 1;
  return *bytes == one;
}

Status CheckMayListenAt(const std::string& host, bool has_gate) {
  if (has_gate || IsLoopbackAddress(host) || host == "localhost" || host == "lo") {
    return OkStatus();
  }
  return PermissionDenied("will not listen at ", host,
                          ": there are no keys, so only loopback (127.0.0.0/8, [::1]), ipc:// "
                          "and inproc:// are allowed; make keys with `lockstep keys new`");
}

bool IsAnyAddress(const std::string& address) {
  return address == "*" || address == "0.0.0.0" || address == "::";
}

std::string HostOf(const std::string& endpoint) {
  if (endpoint.rfind(kTcp, 0) != 0) return "";
  const std::string address = endpoint.substr(sizeof kTcp - 1);
  const std::string host = address.substr(0, address.rfind(':'));
  return host.size() >= 2 && host.front() == '[' ? host.substr(1, host.size() - 2) : host;
}

std::string WithHost(const std::string& endpoint, const std::string& host) {
  const bool is_v6 = host.find(':') != std::string::npos;
  return kTcp + (is_v6 ? "[" + host + "]" : host) + endpoint.substr(endpoint.rfind(':'));
}

std::string FromThisHost(const std::string& endpoint) {
  const std::string host = HostOf(endpoint);
  if (!IsAnyAddress(host)) return endpoint;
  return WithHost(endpoint, host == "::" ? "::1" : "127.0.0.1");
}

std::string Advertise(const std::string& endpoint, const std::string& advertised) {
  return advertised.empty() || HostOf(endpoint).empty() ? endpoint : WithHost(endpoint, advertised);
}

}  // namespace lockstep::control
