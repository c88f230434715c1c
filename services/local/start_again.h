// Starting a process of a cluster again whose owner is gone: by the files that are left of it.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "services/local/service_process.h"

namespace lockstep::local {

// `role` ("controller", "worker-3") in the run directory that ClusterProcesses was given. It gets
// the configuration that is there, and a controller listens where the last one did. It is detached.
// kNotFound: there is no configuration, or no executable; kUnimplemented: the worker was on another
// host, and its settings were sent there.
StatusOr<ServiceProcess> StartAgain(const std::string& directory, const std::string& role);

}  // namespace lockstep::local
