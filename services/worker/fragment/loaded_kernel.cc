#include "services/worker/fragment/loaded_kernel.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "runtime/base/dtype.h"
#include "runtime/fragment/kernel_numbers.h"

namespace lockstep::worker {
namespace {

size_t CountOf(const fragment::TensorType& type, const LockstepFragmentTensor& tensor) {
  size_t count = 1;
  for (int d = 0; d < type.ndim(); ++d) count *= static_cast<size_t>(tensor.sizes[d]);
  return count;
}

collective::MemoryRange MemoryOf(const fragment::TensorType& type,
                                 const LockstepFragmentTensor& tensor) {
  return {tensor.data, CountOf(type, tensor) * SizeOf(type.dtype)};
}

}  // namespace

StatusOr<std::shared_ptr<const LoadedObject>> LoadedKernel::Load(
    const fragment::Fragment& fragment, const fragment::Compiled& compiled,
    std::shared_ptr<collective::Accelerator> device) {
  auto parsed = fragment::ParseKernelSignature(fragment.source(), fragment.entry());
  auto* const names = std::get_if<fragment::KernelSignature>(&parsed);
  if (names == nullptr || names->signature != compiled.signature) {
    return Internal("`", fragment.entry(), "` was compiled as ", compiled.signature.ToString(),
                    ", which its source does not say");
  }
  LOCKSTEP_RETURN_IF_ERROR(device->Bind());
  LOCKSTEP_ASSIGN_OR_RETURN(auto kernel, device->LoadKernel(compiled.object, compiled.entry));
  return std::shared_ptr<const LoadedObject>(
      new LoadedKernel(compiled, std::move(*names), std::move(device), std::move(kernel)));
}

Status LoadedKernel::TellSizes(absl::Span<const LockstepFragmentTensor> arguments,
                               const CallResources& /*resources*/,
                               std::vector<int64_t>* extents) const {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto numbers, fragment::KernelNumbers::Of(names_, arguments));
  extents->clear();
  for (int result = 0; result < signature().num_results(); ++result) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int64_t> of_result, numbers.ResultExtents(result));
    extents->insert(extents->end(), of_result.begin(), of_result.end());
  }
  return OkStatus();
}

Status LoadedKernel::Compute(absl::Span<const LockstepFragmentTensor> arguments,
                             absl::Span<const LockstepFragmentTensor> results,
                             const CallResources& /*resources*/) const {
  LOCKSTEP_ASSIGN_OR_RETURN(auto numbers, fragment::KernelNumbers::Of(names_, arguments));
  LOCKSTEP_RETURN_IF_ERROR(numbers.Learn(results));
  LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t threads, numbers.Threads());

  // As KernelSignature::Parameters() has them: where each lies.
  std::vector<void*> parameters;
  std::vector<collective::MemoryRange> memory;
  std::vector<void*> addresses;
  addresses.reserve(arguments.size() + results.size());  // they stay where they are
  for (size_t i = 0; i < arguments.size(); ++i) {
    const fragment::TensorType& type = signature().arguments[i].type;
    if (type.scalar) {
      parameters.push_back(arguments[i].data);
      continue;
    }
    parameters.push_back(&addresses.emplace_back(arguments[i].data));
    memory.push_back(MemoryOf(type, arguments[i]));
  }
  collective::DeviceProcessor& processor = device_->processor();
  for (size_t i = 0; i < results.size(); ++i) {
    const fragment::TensorType& type = signature().results[i].type;
    parameters.push_back(&addresses.emplace_back(results[i].data));
    memory.push_back(MemoryOf(type, results[i]));
    LOCKSTEP_RETURN_IF_ERROR(
        processor.Fill({results[i].data, CountOf(type, results[i]), type.dtype}, /*pattern=*/0));
  }
  std::vector<int64_t> told;
  told.reserve(names_.numbers.size());
  for (size_t i = 0; i < names_.numbers.size(); ++i) {
    if (names_.numbers[i].is_argument) continue;
    // All are known by now: each is an extent of something.
    parameters.push_back(&told.emplace_back(numbers.values()[i].value_or(0)));
  }
  return Annotate(processor.Launch({*kernel_, threads, parameters, memory}),
                  "`" + signature().function + "`");
}

}  // namespace lockstep::worker
