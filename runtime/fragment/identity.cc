#include "runtime/fragment/identity.h"

#include <cstring>
#include <limits>
#include <type_traits>

#include "runtime/base/float_convert.h"
#include "runtime/tensor/element.h"

namespace lockstep::fragment {
namespace {

// As a value that every dtype of its kind can be made of.
template <typename T>
T IdentityOf(Reduction op) {
  if constexpr (std::is_same_v<T, tensor::Bool8>) {
    // Sums and maxima say whether any is true, products and minima whether all are.
    return {static_cast<uint8_t>(op == Reduction::kProd || op == Reduction::kMin)};
  } else if constexpr (std::is_integral_v<T>) {
    if (op == Reduction::kMin) return std::numeric_limits<T>::max();
    if (op == Reduction::kMax) return std::numeric_limits<T>::min();
    return op == Reduction::kProd ? T{1} : T{0};
  } else {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (op == Reduction::kMin) return tensor::ConvertElement<T>(kInfinity);
    if (op == Reduction::kMax) return tensor::ConvertElement<T>(-kInfinity);
    return tensor::ConvertElement<T>(op == Reduction::kProd ? 1.0 : -0.0);
  }
}

}  // namespace

StatusOr<std::array<std::byte, 8>> IdentityElement(Reduction op, DType dtype) {
  if (op == Reduction::kAvg) return InvalidArgument("no element leaves an average what it is");
  if (!IsArithmetic(dtype)) {
    return InvalidArgument(dtype, " is not computed with, so ", op, " has no identity element");
  }
  std::array<std::byte, 8> bytes{};
  tensor::VisitDType(dtype, [&]<typename T>(std::type_identity<T>) {
    const T element = IdentityOf<T>(op);
    static_assert(sizeof element <= sizeof bytes);
    std::memcpy(bytes.data(), &element, sizeof element);
  });
  return bytes;
}

}  // namespace lockstep::fragment
