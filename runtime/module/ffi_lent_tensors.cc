#include "runtime/module/ffi_lent_tensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace lockstep::module {

using tensor::Tensor;

bool IsAlignedForModules(const Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data()) % tensor::Allocator::kAlignment == 0 ||
         tensor.device().type != DeviceType::kCpu || tensor.NumElements() == 0;
}

StatusOr<DLTensor*> LentTensors::Lend(const Tensor& tensor, tensor::Allocator& allocator) {
  if (IsAlignedForModules(tensor)) [[likely]]
    return tensor.dl();
  for (const Copy& known : copies_) {
    const Tensor& original = known.original;
    if (original.data() == tensor.data() && original.dtype() == tensor.dtype() &&
        original.shape() == tensor.shape()) {
      return known.copy.dl();  // one memory stays one memory
    }
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Tensor copy, Tensor::Empty(allocator, tensor.dtype(), tensor.shape()));
  std::unique_ptr<std::byte[]> before(new std::byte[tensor.size_bytes()]);
  std::memcpy(copy.data(), tensor.data(), tensor.size_bytes());
  std::memcpy(before.get(), tensor.data(), tensor.size_bytes());
  return copies_.emplace_front(Copy{tensor, std::move(copy), std::move(before)}).copy.dl();
}

void LentTensors::BringBack() const {
  constexpr size_t kStep = 256;
  for (const Copy& lent : copies_) {
    auto* original = lent.original.data_as<std::byte>();
    const auto* copy = lent.copy.data_as<std::byte>();
    const std::byte* before = lent.before.get();
    const size_t size = lent.original.size_bytes();
    for (size_t begin = 0; begin < size; begin += kStep) {
      const size_t end = std::min(begin + kStep, size);
      if (std::memcmp(copy + begin, before + begin, end - begin) == 0) continue;
      for (size_t i = begin; i < end; ++i) {
        if (copy[i] != before[i]) original[i] = copy[i];
      }
    }
  }
}

const Tensor* LentTensors::OriginalOf(const void* dl) const {
  for (const Copy& lent : copies_) {
    if (lent.copy.dl() == dl) return &lent.original;
  }
  return nullptr;
}

}  // namespace lockstep::module
