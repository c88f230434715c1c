// How many processor cores this process may use.
#pragma once

namespace lockstep {

// By its CPU affinity, at least 1. The quota of a container is not looked at.
int UsableCores();

}  // namespace lockstep
