// libcuda, found while the program runs.
#pragma once

#include <cuda.h>

#include <string>

#include "runtime/base/status.h"

namespace lockstep::cuda {

// The functions that are used. Some names are macros for what the header's version calls them
// (cuMemGetInfo is cuMemGetInfo_v2): here they stand for the same.
#define LOCKSTEP_CUDA_FUNCTIONS(X)     \
  X(cuInit)                            \
  X(cuDriverGetVersion)                \
  X(cuGetErrorName)                    \
  X(cuGetErrorString)                  \
  X(cuDeviceGetCount)                  \
  X(cuDeviceGet)                       \
  X(cuDeviceGetName)                   \
  X(cuDeviceGetPCIBusId)               \
  X(cuDeviceGetUuid)                   \
  X(cuDeviceGetAttribute)              \
  X(cuDeviceTotalMem)                  \
  X(cuDevicePrimaryCtxRetain)          \
  X(cuDevicePrimaryCtxRelease)         \
  X(cuCtxSetCurrent)                   \
  X(cuStreamCreateWithPriority)        \
  X(cuStreamDestroy)                   \
  X(cuStreamQuery)                     \
  X(cuStreamWaitEvent)                 \
  X(cuEventCreate)                     \
  X(cuEventDestroy)                    \
  X(cuEventRecord)                     \
  X(cuEventQuery)                      \
  X(cuEventElapsedTime)                \
  X(cuMemGetInfo)                      \
  X(cuMemHostAlloc)                    \
  X(cuMemFreeHost)                     \
  X(cuMemPoolCreate)                   \
  X(cuMemPoolDestroy)                  \
  X(cuMemPoolSetAttribute)             \
  X(cuMemPoolGetAttribute)             \
  X(cuMemPoolTrimTo)                   \
  X(cuMemAllocFromPoolAsync)           \
  X(cuMemFreeAsync)                    \
  X(cuMemcpyAsync)                     \
  X(cuMemcpy2DAsync)                   \
  X(cuModuleLoadData)                  \
  X(cuModuleUnload)                    \
  X(cuModuleGetFunction)               \
  X(cuLibraryLoadData)                 \
  X(cuLibraryGetKernel)                \
  X(cuLaunchKernel)                    \
  X(cuThreadExchangeStreamCaptureMode) \
  X(cuStreamBeginCapture)              \
  X(cuStreamEndCapture)                \
  X(cuGraphInstantiate)                \
  X(cuGraphLaunch)                     \
  X(cuGraphExecDestroy)                \
  X(cuGraphDestroy)

struct Library {
#define LOCKSTEP_CUDA_MEMBER(name) decltype(&::name) name = nullptr;
  LOCKSTEP_CUDA_FUNCTIONS(LOCKSTEP_CUDA_MEMBER)
#undef LOCKSTEP_CUDA_MEMBER
};

// Loads libcuda.so.1 and initialises it. It stays loaded. kUnavailable says what is missing.
// Threads: safe.
StatusOr<const Library*> LoadLibrary();

// OK if a driver that knows `driver_version` (12080 is 12.8) runs what a toolkit of
// `toolkit_version` has compiled: any driver of the same major version does, and later ones.
// kUnavailable says which driver does, or what to build with.
Status CheckDriverVersion(int driver_version, int toolkit_version);

// `result` of a call as a Status: its name and CUDA's own words, with `call` in front.
Status ToStatus(const Library& library, CUresult result, const char* call);

// After this nothing works in the GPU's context any more: the process has to end.
bool LosesContext(CUresult result);

}  // namespace lockstep::cuda
