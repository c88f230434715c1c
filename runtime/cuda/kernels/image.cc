#include "runtime/cuda/kernels/image.h"

// Named by the linker, which makes an object of the file kernels.fatbin.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" const char _binary_kernels_fatbin_start[];

namespace lockstep::cuda {

const void* KernelImage() { return _binary_kernels_fatbin_start; }

}  // namespace lockstep::cuda
