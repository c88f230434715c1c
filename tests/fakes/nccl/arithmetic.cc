#include "tests/fakes/nccl/arithmetic.h"

#include <algorithm>
#include <type_traits>

#include "runtime/tensor/element.h"

namespace lockstep::fake_nccl {
namespace {

using tensor::ConvertElement;

// What T is computed in.
template <typename T>
using Wide = std::conditional_t<kIsNarrowFloat<T>, float, T>;

template <typename T>
Wide<T> Combine(Wide<T> a, Wide<T> b, ncclRedOp_t op) {
  if constexpr (std::is_same_v<T, tensor::Bool8>) {
    return b;  // NCCL has none
  } else {
    switch (op) {
      case ncclProd:
        return static_cast<Wide<T>>(a * b);
      case ncclMin:
        return b < a || b != b ? b : a;
      case ncclMax:
        return b > a || b != b ? b : a;
      default:
        return static_cast<Wide<T>>(a + b);
    }
  }
}

// NCCL before 2.29.7 deals what one rank averages out to blocks, and forgets what is left over.
size_t AveragedOfOneRank(size_t count, size_t element_bytes) {
  if (count == 0) return 0;
  const size_t blocks = std::min<size_t>(32, (count * element_bytes + 16383) / 16384);
  const size_t pack = 16 / element_bytes;
  return std::min(count, blocks * ((count / blocks + pack - 1) / pack * pack));
}

}  // namespace

DType DTypeOf(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return DType::kInt8;
    case ncclInt32:
      return DType::kInt32;
    case ncclUint32:
      return DType::kUInt32;
    case ncclInt64:
      return DType::kInt64;
    case ncclUint64:
      return DType::kUInt64;
    case ncclFloat16:
      return DType::kFloat16;
    case ncclFloat32:
      return DType::kFloat32;
    case ncclFloat64:
      return DType::kFloat64;
    case ncclBfloat16:
      return DType::kBFloat16;
    case ncclFloat8e4m3:
      return DType::kFloat8E4M3;
    case ncclFloat8e5m2:
      return DType::kFloat8E5M2;
    default:
      return DType::kUInt8;
  }
}

void Reduce(const std::vector<const std::byte*>& parts, std::byte* out, size_t count, DType dtype,
            ncclRedOp_t op) {
  if (parts.size() == 1 && op == ncclAvg) count = AveragedOfOneRank(count, SizeOf(dtype));
  tensor::VisitDType(dtype, [&]<typename T>(std::type_identity<T>) {
    const auto at = [&](size_t rank, size_t i) {
      return ConvertElement<Wide<T>>(reinterpret_cast<const T*>(parts[rank])[i]);
    };
    for (size_t i = 0; i < count; ++i) {
      Wide<T> value = at(0, i);
      for (size_t rank = 1; rank < parts.size(); ++rank) value = Combine<T>(value, at(rank, i), op);
      if constexpr (!std::is_same_v<T, tensor::Bool8>) {
        if (op == ncclAvg) value = static_cast<Wide<T>>(value / static_cast<Wide<T>>(parts.size()));
      }
      reinterpret_cast<T*>(out)[i] = ConvertElement<T>(value);
    }
  });
}

}  // namespace lockstep::fake_nccl
