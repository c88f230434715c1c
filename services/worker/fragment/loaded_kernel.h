// A compiled kernel of CUDA C++ on this worker's GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/collective/device.h"
#include "runtime/fragment/compile_codec.h"
#include "runtime/fragment/fragment.h"
#include "runtime/fragment/kernel_signature.h"
#include "services/worker/fragment/loaded_object.h"

namespace lockstep::worker {

// Results begin as zeros, so that a kernel may add to them.
//
// Threads: Load() is for any; calls are for that of the device's processor.
class LoadedKernel final : public LoadedObject {
 public:
  // Of the fragment that it was compiled from: its signature is read again, for the names in it.
  // kInternal: it is not of that one; the errors of Accelerator::LoadKernel().
  static StatusOr<std::shared_ptr<const LoadedObject>> Load(
      const fragment::Fragment& fragment, const fragment::Compiled& compiled,
      std::shared_ptr<collective::Accelerator> device);

  bool computes_on_device() const override { return true; }

 private:
  LoadedKernel(const fragment::Compiled& compiled, fragment::KernelSignature names,
               std::shared_ptr<collective::Accelerator> device,
               std::unique_ptr<collective::DeviceKernel> kernel)
      : LoadedObject(compiled),
        names_(std::move(names)),
        device_(std::move(device)),
        kernel_(std::move(kernel)) {}

  Status TellSizes(absl::Span<const LockstepFragmentTensor> arguments,
                   const CallResources& resources, std::vector<int64_t>* extents) const override;
  Status Compute(absl::Span<const LockstepFragmentTensor> arguments,
                 absl::Span<const LockstepFragmentTensor> results,
                 const CallResources& resources) const override;

  const fragment::KernelSignature names_;
  const std::shared_ptr<collective::Accelerator> device_;
  const std::unique_ptr<collective::DeviceKernel> kernel_;
};

}  // namespace lockstep::worker
