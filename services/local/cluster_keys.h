// Keys for a cluster whose operator has given none.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "runtime/client/address.h"
#include "services/local/cluster_config.h"

namespace lockstep::local {

// Makes one for the controller, one that all workers share, and one for the operator that starts
// and stops the cluster, in files of `directory`, which no other user may enter. Writes what the
// services are to use into `cluster`. A worker of another host gets the key itself: its
// configuration goes there over ssh, and is written nowhere there.
Status MakeKeys(ClusterOptions& cluster, const std::string& directory);

// The same if the controller is reached from other hosts and has no key yet.
Status MakeKeysIfNeeded(ClusterOptions& cluster, const std::string& directory);

// How the controller at `endpoint` is asked from this host.
StatusOr<ControllerAddress> OperatorAddress(const ClusterOptions& cluster,
                                            const std::string& endpoint);

}  // namespace lockstep::local
