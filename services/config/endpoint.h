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

// "tcp://127.0.0.1:7400", "tcp://127.0.0.1:*" (any free port), "ipc:///ABSOLUTE/PATH",
// "inproc://NAME". kInvalidArgument: the form is wrong; kPermissionDenied: not on this host.
Status CheckEndpoint(std::string_view endpoint);

// "http://127.0.0.1:9464", "http://localhost:*" (any free port). Errors as above.
Status CheckHttpEndpoint(std::string_view endpoint);

// "ipc://`path`", if the path is absolute and short enough for a socket.
StatusOr<std::string> IpcEndpoint(const std::string& path);

}  // namespace lockstep::config
