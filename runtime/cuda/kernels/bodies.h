// What Lockstep's kernels do, one element after the other: compiled for GPUs by kernels.cu, and for
// the host by tests, which check it there against what runtime/tensor does.
//
// A kernel named K runs its parameters' Run(first, step) in every thread: `first` is the thread's
// number, and `step` how many threads there are.
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/base/dtype.h"
#include "runtime/tensor/element.h"

namespace lockstep::cuda {

// Writes `pattern`'s lowest `element_bytes` (1, 2, 4 or 8) to every element.
struct Fill {
  static constexpr char kName[] = "lockstep_fill";
  void* out;
  uint64_t count;
  uint64_t element_bytes;
  uint64_t pattern;

  template <typename T>
  constexpr void RunAs(uint64_t first, uint64_t step) const {
    for (uint64_t i = first; i < count; i += step)
      static_cast<T*>(out)[i] = static_cast<T>(pattern);
  }
  constexpr void Run(uint64_t first, uint64_t step) const {
    switch (element_bytes) {
      case 1:
        return RunAs<uint8_t>(first, step);
      case 2:
        return RunAs<uint16_t>(first, step);
      case 4:
        return RunAs<uint32_t>(first, step);
      default:
        return RunAs<uint64_t>(first, step);
    }
  }
};

// Element i is steps.At(i).
struct Arange {
  static constexpr char kName[] = "lockstep_arange";
  void* out;
  uint64_t count;
  DType dtype;
  tensor::Steps steps;

  constexpr void Run(uint64_t first, uint64_t step) const {
    tensor::VisitDType(dtype, [&]<typename T>(std::type_identity<T>) {
      for (uint64_t i = first; i < count; i += step) static_cast<T*>(out)[i] = steps.At<T>(i);
    });
  }
};

// Converts every element by the rules of tensor/element.h.
struct Cast {
  static constexpr char kName[] = "lockstep_cast";
  const void* from;
  void* to;
  uint64_t count;
  DType from_dtype;
  DType to_dtype;

  template <typename From>
  constexpr void RunFrom(uint64_t first, uint64_t step) const {
    tensor::VisitDType(to_dtype, [&]<typename To>(std::type_identity<To>) {
      for (uint64_t i = first; i < count; i += step) {
        static_cast<To*>(to)[i] = tensor::ConvertElement<To>(static_cast<const From*>(from)[i]);
      }
    });
  }
  constexpr void Run(uint64_t first, uint64_t step) const {
    tensor::VisitDType(
        from_dtype, [&]<typename From>(std::type_identity<From>) { RunFrom<From>(first, step); });
  }
};

}  // namespace lockstep::cuda
