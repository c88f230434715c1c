#include "runtime/tensor/element.h"

#include <cstring>

namespace lockstep::tensor {

void CastElements(ConstBuffer from, Buffer to) {
  if (to.count == 0) return;
  if (from.dtype == to.dtype) {
    std::memcpy(to.data, from.data, to.size_bytes());
    return;
  }
  VisitDType(from.dtype, [&]<typename From>(std::type_identity<From>) {
    VisitDType(to.dtype, [&]<typename To>(std::type_identity<To>) {
      const auto* __restrict source = static_cast<const From*>(from.data);
      auto* __restrict target = static_cast<To*>(to.data);
      for (size_t i = 0; i < to.count; ++i) target[i] = ConvertElement<To>(source[i]);
    });
  });
}

}  // namespace lockstep::tensor
