#include "runtime/collective/kernels/level.h"
#include "runtime/collective/kernels/levels.h"

namespace lockstep::collective::kernels {

constinit const Table kAVX2Table = MakeTable("avx2");

}  // namespace lockstep::collective::kernels
