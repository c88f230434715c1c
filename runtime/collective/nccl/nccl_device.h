// A GPU as collective::Accelerator: by the CUDA driver, with collectives by NCCL.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/collective/device.h"
#include "runtime/collective/nccl/nccl.h"

namespace lockstep::collective::nccl {

struct DeviceOptions {
  int index = 0;
  // As cuda::DeviceMemoryOptions has them.
  size_t memory_limit_bytes = 0;
  std::function<std::string()> describe_memory_use = {};
  // So much of its memory is registered with NCCL, and comes first.
  size_t registered_bytes = 0;
  // Most communicators of NCCL's at a time; the world's counts, and is made however many there are.
  int max_communicators = std::numeric_limits<int>::max();
  // As Options::library.
  std::string library = {};
};

// The GPUs that this process sees; without NCCL, too: then it says no version of it. Errors:
// kUnavailable if there is no GPU to be used, see cuda::Available(); those of the driver.
StatusOr<std::vector<DeviceFacts>> ListDevices(const std::string& library);

// The errors of cuda::OpenGpu() and of RegisteredMemory::Allocate().
StatusOr<std::shared_ptr<Accelerator>> OpenDevice(const DeviceOptions& options);

// What NCCL is to do in this process, unless the environment says otherwise. Before the first
// communicator. `only_loopback`: it listens on no other interface.
void SetDefaultsOfProcess(bool only_loopback);

// Has Connect() connect `device`, which OpenDevice() made.
void UseDevice(Accelerator& device, Options* options);

}  // namespace lockstep::collective::nccl
