// Addresses: which ones we understand, where we may listen, and how they read.
// Private to this folder.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace lockstep::control {

inline constexpr char kExpectedEndpoint[] =
    "expected inproc://<name>, ipc://<path> (at most 107 bytes) or tcp://<host>:<port>";

// Where a socket is to listen: interfaces, networks and names of this host become its address (see
// LocalAddress). Without keys only this host may reach us: unless `has_gate`,
// kPermissionDenied for a tcp address that is not loopback. kInvalidArgument for a transport that
// is none of ours, or an address that this host does not have.
StatusOr<std::string> WhereToListen(const std::string& endpoint, bool has_gate);

// ZeroMQ tells an IPv4 address as an IPv6 one, "[::ffff:127.0.0.1]": the same place, but nothing
// that people have written into their configuration.
std::string WithPlainIpv4(std::string endpoint);

}  // namespace lockstep::control
