// NCCL, found while the program runs: its header, or RCCL's, which spells some names differently,
// and its functions.
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

#include <string>

#include "runtime/base/status.h"
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

// What every NCCL from 2.18 on has, and is used.
#define LOCKSTEP_NCCL_FUNCTIONS(X) \
  X(ncclGetVersion)                \
  X(ncclGetErrorString)            \
  X(ncclGetLastError)              \
  X(ncclGetUniqueId)               \
  X(ncclCommInitRankConfig)        \
  X(ncclCommSplit)                 \
  X(ncclCommFinalize)              \
  X(ncclCommDestroy)               \
  X(ncclCommAbort)                 \
  X(ncclCommGetAsyncError)         \
  X(ncclAllReduce)                 \
  X(ncclReduce)                    \
  X(ncclBroadcast)                 \
  X(ncclAllGather)                 \
  X(ncclReduceScatter)             \
  X(ncclSend)                      \
  X(ncclRecv)                      \
  X(ncclGroupStart)                \
  X(ncclGroupEnd)

struct Library {
#define LOCKSTEP_NCCL_MEMBER(name) decltype(&::name) name = nullptr;
  LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_NCCL_MEMBER)
#undef LOCKSTEP_NCCL_MEMBER

  // One root's data to all, all's to one, and all's to all: null before NCCL 2.28. Equal parts
  // only.
  using Rooted = ncclResult_t (*)(const void* send, void* recv, size_t count, ncclDataType_t type,
                                  int root, ncclComm_t comm, NativeStream stream);
  Rooted gather = nullptr;
  Rooted scatter = nullptr;
  ncclResult_t (*all_to_all)(const void* send, void* recv, size_t count, ncclDataType_t type,
                             ncclComm_t comm, NativeStream stream) = nullptr;
  // Memory that NCCL works on without copying it first; null before NCCL 2.19.
  ncclResult_t (*mem_alloc)(void** address, size_t size_bytes) = nullptr;
  ncclResult_t (*mem_free)(void* address) = nullptr;
  ncclResult_t (*register_memory)(ncclComm_t comm, void* address, size_t size_bytes,
                                  void** handle) = nullptr;
  ncclResult_t (*deregister_memory)(ncclComm_t comm, void* handle) = nullptr;

  int version = 0;  // 22809 is 2.28.9

  std::string VersionText() const;
};

// Loads the NCCL in `file` (a name that the dynamic linker finds, or a path; empty: libnccl.so.2).
// It stays loaded, and every later call gives the same one. kUnavailable says what is missing and
// how to get it. Threads: safe.
StatusOr<const Library*> LoadLibrary(const std::string& file);

// What a result of `call` means; OK for success, and for what is under way.
Status ToStatus(const Library& library, ncclResult_t result, const char* call, ncclComm_t comm);

}  // namespace lockstep::collective::nccl
