// How a body becomes a kernel: a struct of parameters whose Run(first, step) does the elements
// first, first + step, and so on. A GPU runs it in many threads, each with its number as `first`;
// a host runs Run(0, 1). Includes nothing: nvcc reads it, and modules of users may.
#pragma once

#ifdef __CUDACC__
// In front of functions that both run.
#define LOCKSTEP_HOST_DEVICE __host__ __device__
// Defines the kernel `name` of a struct Body. In .cu files, outside of namespaces.
#define LOCKSTEP_KERNEL(name, Body)                                                  \
  extern "C" __global__ void name(const Body body) {                                 \
    body.Run(static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x, \
             static_cast<unsigned long long>(gridDim.x) * blockDim.x);               \
  }
#else
#define LOCKSTEP_HOST_DEVICE
#endif
