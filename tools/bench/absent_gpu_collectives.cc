// What gpu_collectives.h promises, where the build has no CUDA.
#include "tools/bench/gpu_collectives.h"

namespace lockstep::bench {

StatusOr<std::vector<GpuCollectives>> MeasureGpuCollectives(const Settings&, int) {
  return Unavailable("this build has no CUDA");
}

}  // namespace lockstep::bench
