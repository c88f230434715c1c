// Telling a controller from the ones before it.
#pragma once

#include "runtime/base/ids.h"

namespace lockstep::controller {

// An epoch that no controller had before, greater than all of theirs: the time of day in
// milliseconds, and at least one more than any that this process has used. Workers of an earlier
// controller are known by it, although they speak to the same endpoints.
//
// Threads: safe.
Epoch NewEpoch();

}  // namespace lockstep::controller
