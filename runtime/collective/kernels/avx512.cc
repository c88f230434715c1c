#include "runtime/collective/kernels/level.h"
#include "runtime/collective/kernels/levels.h"

namespace lockstep::collective::kernels {

constinit const Table kAVX512Table = MakeTable("avx512");

}  // namespace lockstep::collective::kernels
