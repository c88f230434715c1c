// Element types, and borrowed views of typed memory: what collectives and copies work on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace lockstep {

// An element's type. The numeric values are part of the wire format (schemas/values.capnp): append,
// never renumber.
enum class DType : uint8_t {
  kBool = 0,
  kInt8 = 1,
  kUInt8 = 2,
  kInt16 = 3,
  kUInt16 = 4,
  kInt32 = 5,
  kUInt32 = 6,
  kInt64 = 7,
  kUInt64 = 8,
  kFloat16 = 9,    // IEEE 754 binary16
  kBFloat16 = 10,  // the upper half of a binary32
  kFloat32 = 11,
  kFloat64 = 12,
  kFloat8E4M3 = 13,  // OCP FP8 E4M3 (finite, "fn"): moved, never computed with
  kFloat8E5M2 = 14,  // OCP FP8 E5M2: moved, never computed with
};
inline constexpr int kDTypeCount = 15;

// Bytes of one element.
constexpr size_t SizeOf(DType dtype) {
  constexpr uint8_t kSizes[kDTypeCount] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1};
  return kSizes[static_cast<size_t>(dtype)];
}

// True if arithmetic (reductions, arange, full) is defined; fp8 is only moved and cast.
constexpr bool IsArithmetic(DType dtype) { return dtype < DType::kFloat8E4M3; }
constexpr bool IsFloat(DType dtype) { return dtype >= DType::kFloat16; }

// The canonical name: "float32", "bfloat16", "int8", "bool", "float8_e4m3fn", ...
std::string_view Name(DType dtype);

// Reads a canonical name or its short form ("f32", "bf16", "i64", "u8"). kInvalidArgument lists
// the names that exist.
StatusOr<DType> ParseDType(std::string_view name);

// The dtype with this wire number; kInvalidArgument if there is none.
StatusOr<DType> DTypeFromNumber(int number);

inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << Name(dtype); }

// The dtype of a C++ element type (float -> kFloat32, ...). Types without one do not compile.
template <typename T>
struct DTypeOf;
#define LOCKSTEP_DTYPE_OF(type, dtype)           \
  template <>                                    \
  struct DTypeOf<type> {                         \
    static constexpr DType value = DType::dtype; \
  };
LOCKSTEP_DTYPE_OF(bool, kBool)
LOCKSTEP_DTYPE_OF(int8_t, kInt8)
LOCKSTEP_DTYPE_OF(uint8_t, kUInt8)
LOCKSTEP_DTYPE_OF(int16_t, kInt16)
LOCKSTEP_DTYPE_OF(uint16_t, kUInt16)
LOCKSTEP_DTYPE_OF(int32_t, kInt32)
LOCKSTEP_DTYPE_OF(uint32_t, kUInt32)
LOCKSTEP_DTYPE_OF(int64_t, kInt64)
LOCKSTEP_DTYPE_OF(uint64_t, kUInt64)
LOCKSTEP_DTYPE_OF(float, kFloat32)
LOCKSTEP_DTYPE_OF(double, kFloat64)
#undef LOCKSTEP_DTYPE_OF

// `count` elements of `dtype` at `data`. Borrowed: the memory outlives the call it is passed to.
// `data` may be null where `count` is 0.
struct ConstBuffer {
  const void* data = nullptr;
  size_t count = 0;
  DType dtype = DType::kUInt8;

  size_t size_bytes() const { return count * SizeOf(dtype); }
};

struct Buffer {
  void* data = nullptr;
  size_t count = 0;
  DType dtype = DType::kUInt8;

  size_t size_bytes() const { return count * SizeOf(dtype); }
  operator ConstBuffer() const { return {data, count, dtype}; }  // NOLINT: views convert freely
};

template <typename T>
ConstBuffer ViewOf(const T* data, size_t count) {
  return {data, count, DTypeOf<T>::value};
}
template <typename T>
Buffer ViewOf(T* data, size_t count) {
  return {data, count, DTypeOf<T>::value};
}

}  // namespace lockstep
