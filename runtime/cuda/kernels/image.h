// The compiled kernels: code for several architectures, of which the driver takes the GPU's.
#pragma once

namespace lockstep::cuda {

// What cuModuleLoadData() takes; it is there as long as the program runs.
const void* KernelImage();

}  // namespace lockstep::cuda
