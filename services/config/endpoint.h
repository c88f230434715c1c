// Which endpoints a configuration may name.
//
// Nothing is encrypted or authenticated without keys, so without them only this host is reachable:
// loopback, ipc and inproc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace lockstep::config {

// A Unix socket's address holds this many bytes of a path (sizeof(sockaddr_un::sun_path) - 1).
inline constexpr size_t kMaxSocketPathBytes = 107;

// "tcp://127.0.0.1:7400", "tcp://127.0.0.1:*" (any free port), "tcp://eth0:7400",
// "tcp://10.1.0.0/16:7400", "tcp://[fd00::7]:7400", "ipc:///ABSOLUTE/PATH", "inproc://NAME".
// kInvalidArgument: the form is wrong.
Status CheckEndpoint(std::string_view endpoint);

// "http://127.0.0.1:9464", "http://localhost:*" (any free port). kInvalidArgument as above.
Status CheckHttpEndpoint(std::string_view endpoint);

// True for what stands for all addresses of a host: "*", "0.0.0.0" and "::", in brackets or
// without.
bool IsWildcard(std::string_view host);

// True for an endpoint, of either kind, that only this host can reach.
bool StaysOnThisHost(std::string_view endpoint);

// OK for a tcp endpoint that names an address which other hosts can reach, as far as the text
// tells; else kInvalidArgument, with what to write. `advertised`: others are told another address,
// so that it may be any.
Status CheckReachedFromOthers(std::string_view endpoint, bool advertised);

// "ipc://`path`", if the path is absolute and short enough for a socket.
StatusOr<std::string> IpcEndpoint(const std::string& path);

}  // namespace lockstep::config
