// What a controller answers to who asks for its status.
#pragma once

#include "runtime/base/status.h"
#include "runtime/client/admin.h"
#include "runtime/control/frame.h"

namespace lockstep::client {

// kUnavailable: the cluster is shutting down; kInvalidArgument, kInternal: this is no status.
StatusOr<ClusterStatus> ReadClusterStatus(const control::Message& answer);

}  // namespace lockstep::client
