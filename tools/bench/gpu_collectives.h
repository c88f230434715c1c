// Collectives between the GPUs of this machine, ours and NCCL's own.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/base/status.h"
#include "tools/bench/settings.h"

namespace lockstep::bench {

// Of one round.
struct GpuCollectives {
  // Microseconds that the host spends in one allreduce of 1 MiB, until the next can be asked for.
  double our_post = 0;
  double nccl_post = 0;
  // Bus bandwidth of allreduces in GB/s, as nccl-tests define it, by size; 0 with one GPU.
  struct Bandwidth {
    size_t size_bytes = 0;
    double ours = 0;
    double nccl = 0;
  };
  std::vector<Bandwidth> bandwidths;
};

// Of ranks 0 to `gpus` - 1 in this process, each with a GPU of its own; one for each of
// settings.rounds.
StatusOr<std::vector<GpuCollectives>> MeasureGpuCollectives(const Settings& settings, int gpus);

}  // namespace lockstep::bench
