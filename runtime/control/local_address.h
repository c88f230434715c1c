// Which address of this host others are to use.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace lockstep::control {

// The address that `wanted` names, in digits ("10.1.2.3", "fd00::7"):
//   an address of this host   10.1.2.3, fd00::7
//   a network                 10.1.0.0/16, fd00::/64: the address that this host has in it
//   an interface              eth0: its first IPv4 address, or, without one, its first IPv6 address
//   a host name               that stands for an address of this host
// kInvalidArgument says what this host has instead.
StatusOr<std::string> LocalAddress(const std::string& wanted);

// The address by which this host talks to `host` (a name, or an address with or without brackets):
// the one that `host` sees, unless there is a NAT in between. Nothing is sent. kUnavailable if
// there is no way there, or no such name.
StatusOr<std::string> LocalAddressTowards(const std::string& host);

// True for 127.0.0.0/8 and ::1, in digits.
bool IsLoopbackAddress(const std::string& address);

// OK to listen at `host` (digits, or a name): on loopback (localhost and lo are, too), or anywhere
// if `has_gate`; else kPermissionDenied, with what to set: without keys no other host may reach us.
Status CheckMayListenAt(const std::string& host, bool has_gate);

// True for "*", "0.0.0.0" and "::": all addresses of this host.
bool IsAnyAddress(const std::string& address);

// The host in "tcp://HOST:PORT", without brackets; empty for any other transport.
std::string HostOf(const std::string& endpoint);
// The same endpoint at another host.
std::string WithHost(const std::string& endpoint, const std::string& host);
// Where a client of this host connects to a listener at `endpoint`: that is loopback, where it
// listens at all addresses.
std::string FromThisHost(const std::string& endpoint);
// What others are told of an endpoint: `advertised` as its host, unless that is empty, or the
// endpoint has none.
std::string Advertise(const std::string& endpoint, const std::string& advertised);

}  // namespace lockstep::control
