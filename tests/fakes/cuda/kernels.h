// The kernels that fake GPUs run: where they come from, and what a launch of one does.
#pragma once

#include <cuda.h>

#include <functional>

#include "tests/fakes/cuda/fake_cuda.h"

// What CUDA only declares.
struct CUmod_st {
  // The shared object that its image is; null: an image of device code, which the fake knows by the
  // names of its kernels.
  void* library = nullptr;
};
// A kernel, of one kind or the other.
struct CUfunc_st {
  const FakeKernel* kernel;
  const FakeFunction* function;
};

namespace lockstep::fake_cuda {

// An image that is a shared object of the host's is loaded; it stays, as work in streams may need
// it.
CUresult LoadModule(const void* image, CUmod_st* module);

// A kernel of a loaded object; or one of runtime/cuda, or of the libraries in $FAKE_CUDA_KERNELS.
CUresult FindFunction(const CUmod_st& module, const char* name, CUfunction* function);

// What a launch does when its turn comes. The parameters are copied now.
std::function<void()> LaunchOf(CUfunction function, unsigned blocks, unsigned threads,
                               void** parameters);

}  // namespace lockstep::fake_cuda
