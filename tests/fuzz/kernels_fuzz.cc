// Source of CUDA C++: its kernel's signature, and calls by it.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/fragment/kernel_numbers.h"
#include "runtime/fragment/kernel_signature.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {
namespace {

using fragment::KernelNumbers;
using fragment::KernelSignature;

// What the signature has is one thing, seen from two sides.
void CheckNames(const KernelSignature& kernel) {
  if (!kernel.signature.Validate().ok() ||
      kernel.arguments.size() != kernel.signature.arguments.size() ||
      kernel.results.size() != kernel.signature.results.size()) {
    std::abort();
  }
  size_t passed = kernel.arguments.size() + kernel.results.size();
  for (const KernelSignature::Number& number : kernel.numbers) passed += number.is_argument ? 0 : 1;
  if (kernel.Parameters().size() != passed) std::abort();
}

// By parts that are as large everywhere, and numbers that are.
void Call(const KernelSignature& kernel, int64_t extent) {
  const std::vector<int64_t> extents(Shape::kMaxDims, extent);
  const LockstepFragmentTensor tensor{const_cast<int64_t*>(&extent), extents.data(), extents.data(),
                                      extents.data()};
  auto numbers = KernelNumbers::Of(
      kernel, std::vector<LockstepFragmentTensor>(kernel.arguments.size(), tensor));
  if (!numbers.ok()) return;
  for (int result = 0; result < kernel.signature.num_results(); ++result) {
    const auto& type = kernel.signature.results[static_cast<size_t>(result)];
    const auto made = numbers->ResultExtents(result);
    if (!made.ok()) continue;
    for (const int64_t of_dimension : *made) {
      if (type.sizes_known && of_dimension < 0) std::abort();
    }
  }
  const std::vector<LockstepFragmentTensor> results(kernel.results.size(), tensor);
  if (!numbers->Learn(results).ok()) return;
  (void)numbers->Threads();
}

}  // namespace

void ReadKernels(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = fragment::ParseKernelSignature(source, "f");
  if (const auto* error = std::get_if<fragment::SourceError>(&parsed)) {
    if (error->line == 0 || error->column == 0 || error->message.empty()) std::abort();
    return;
  }
  const auto& kernel = std::get<KernelSignature>(parsed);
  CheckNames(kernel);
  for (const int64_t extent : {-1, 0, 5}) Call(kernel, extent);
}

}  // namespace lockstep::fuzz
