// NCCL's header, or RCCL's, which spells some names differently: the one place that knows.
#pragma once

#ifdef LOCKSTEP_ROCM
#include <rccl/rccl.h>
#define LOCKSTEP_NCCL_FILE "librccl.so.1"
#define LOCKSTEP_NCCL_NAME "RCCL"
// What NCCL spells ncclAlltoAll.
#define LOCKSTEP_NCCL_ALL_TO_ALL "ncclAllToAll"
#else
#include <nccl.h>
#define LOCKSTEP_NCCL_FILE "libnccl.so.2"
#define LOCKSTEP_NCCL_NAME "NCCL"
#define LOCKSTEP_NCCL_ALL_TO_ALL "ncclAlltoAll"
#endif

#include "runtime/cuda/stream.h"

namespace lockstep::collective::nccl {

#ifdef LOCKSTEP_ROCM
using NativeStream = hipStream_t;
#else
using NativeStream = cudaStream_t;
#endif

inline NativeStream ToNative(cuda::StreamHandle stream) {
  return reinterpret_cast<NativeStream>(stream);
}

}  // namespace lockstep::collective::nccl
