// What a cluster needs besides the machine: programs of one version, and keys that can be used.
#pragma once

#include <string>
#include <vector>

#include "services/local/cluster_config.h"
#include "tools/cli/doctor/finding.h"

namespace lockstep::cli {

// `name` ("lockstep-worker") is found, can be executed, and is of this program's version.
// `variable` and `folder` as in local::FindProgram().
Finding CheckProgram(const std::string& name, const std::string& variable,
                     const std::string& folder);

// The keys that the cluster's services on this host are to use, as far as they are here.
std::vector<Finding> CheckKeys(const local::ClusterOptions& cluster);
// One key file, and one with public keys (or such a key).
Finding CheckKeyFile(const std::string& whose, const std::string& path);
Finding CheckPublicKeys(const std::string& whose, const std::string& path_or_key);

}  // namespace lockstep::cli
