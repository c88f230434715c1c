// Borrowed views of typed memory: what collectives and copies work on.
#pragma once

#include <cstddef>

#include "runtime/base/dtype.h"

namespace lockstep {

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
