#include "runtime/collective/kernels/level.h"
#include "runtime/collective/kernels/levels.h"

namespace lockstep::collective::kernels {

constinit const Table kGenericTable = MakeTable("generic");

}  // namespace lockstep::collective::kernels
