// The loops, for the instruction set that the including file is compiled for. Each of generic.cc,
// avx2.cc and avx512.cc includes this once and exports kTable under a name of its own.
#pragma once

#include "runtime/collective/kernels/kernels.h"
#include "runtime/collective/kernels/vector.h"

namespace lockstep::collective::kernels {
namespace {

struct Sum {
  static constexpr bool kDivides = false;
  template <typename V>
  static LOCKSTEP_INLINE V Apply(V a, V b) {
    return a + b;
  }
};
struct Average : Sum {
  static constexpr bool kDivides = true;
};
// Of int64, which no wider type holds the sum of: it wraps, and only unsigned numbers may.
struct WrappingAverage {
  static constexpr bool kDivides = true;
  template <typename V>
  static LOCKSTEP_INLINE V Apply(V a, V b) {
    using Unsigned = Vec<uint64_t, sizeof(V) / sizeof(uint64_t)>;
    return reinterpret_cast<V>(reinterpret_cast<Unsigned>(a) + reinterpret_cast<Unsigned>(b));
  }
};
struct Product {
  static constexpr bool kDivides = false;
  template <typename V>
  static LOCKSTEP_INLINE V Apply(V a, V b) {
    return a * b;
  }
};
template <typename V>
constexpr bool kIsFloating = std::is_floating_point_v<std::remove_cvref_t<decltype(V{}[0])>>;
// The lanes of a comparison's result: all bits or none.
template <typename V>
using MaskOf = decltype(V{} == V{});

// IEEE 754-2019's minimum and maximum, which do not depend on the order of the inputs: NaN if any
// is, and -0 is less than +0. A comparison with NaN is false, so `b` wins if it is NaN; the last
// choice keeps a NaN in `a`. Equal numbers have equal bits but for zeros: there `or` finds a minus,
// and `and` a plus.
struct Minimum {
  static constexpr bool kDivides = false;
  template <typename V>
  static LOCKSTEP_INLINE V Apply(V a, V b) {
    V smaller = a < b ? a : b;
    if constexpr (kIsFloating<V>) {
      const auto minus = reinterpret_cast<MaskOf<V>>(a) & (a == b);
      smaller = reinterpret_cast<V>(reinterpret_cast<MaskOf<V>>(smaller) | minus);
    }
    return a != a ? a : smaller;
  }
};
struct Maximum {
  static constexpr bool kDivides = false;
  template <typename V>
  static LOCKSTEP_INLINE V Apply(V a, V b) {
    V larger = a > b ? a : b;
    if constexpr (kIsFloating<V>) {
      const auto plus = reinterpret_cast<MaskOf<V>>(a) | (a != b);
      larger = reinterpret_cast<V>(reinterpret_cast<MaskOf<V>>(larger) & plus);
    }
    return a != a ? a : larger;
  }
};
struct Or {
  static constexpr bool kDivides = false;
  template <typename V>
  static LOCKSTEP_INLINE V Apply(V a, V b) {
    return a | b;
  }
};

// One combination in progress: what all steps of a loop share.
struct Operands {
  void* const* destinations;
  int num_destinations;
  const void* const* sources;
  int num_sources;
};

// Combines kVectors vectors of kLanes elements that begin at element `i`. All of them are read
// before one is written, so a destination may be a source.
template <typename Element, typename Op, int kLanes, int kVectors, bool kStream>
LOCKSTEP_INLINE void Step(const Operands& o, size_t i) {
  using Stored = typename Element::Stored;
  using Computed = typename Element::Computed;
  using V = Vec<Stored, kLanes>;
  V result[kVectors];
  {
    Vec<Computed, kLanes> sum[kVectors];
    const auto* first = static_cast<const Stored*>(o.sources[0]) + i;
    for (int u = 0; u < kVectors; ++u) {
      sum[u] = Element::template Widen<kLanes>(LoadUnaligned<V>(first + u * kLanes));
    }
    for (int s = 1; s < o.num_sources; ++s) {
      const auto* source = static_cast<const Stored*>(o.sources[s]) + i;
      for (int u = 0; u < kVectors; ++u) {
        sum[u] = Op::Apply(sum[u],
                           Element::template Widen<kLanes>(LoadUnaligned<V>(source + u * kLanes)));
      }
    }
    for (int u = 0; u < kVectors; ++u) {
      if constexpr (Op::kDivides) sum[u] = sum[u] / static_cast<Computed>(o.num_sources);
      result[u] = Element::template Narrow<kLanes>(sum[u]);
    }
  }
  for (int d = 0; d < o.num_destinations; ++d) {
    auto* destination = static_cast<Stored*>(o.destinations[d]) + i;
    for (int u = 0; u < kVectors; ++u) {
      StoreTo<kStream && kLanes != 1>(destination + u * kLanes, result[u]);
    }
  }
}

template <typename Element, typename Op, bool kStream>
LOCKSTEP_INLINE void Loop(const Operands& o, size_t count) {
  constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(typename Element::Computed));
  size_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) Step<Element, Op, kLanes, 4, kStream>(o, i);
  for (; i + kLanes <= count; i += kLanes) Step<Element, Op, kLanes, 1, kStream>(o, i);
  for (; i < count; ++i) Step<Element, Op, 1, 1, false>(o, i);
}

bool IsAligned(void* const* pointers, int count) {
  uintptr_t all = 0;
  for (int i = 0; i < count; ++i) all |= reinterpret_cast<uintptr_t>(pointers[i]);
  return all % kVectorBytes == 0;
}

template <typename Element, typename Op>
void CombineElements(void* const* destinations, int num_destinations, const void* const* sources,
                     int num_sources, size_t count, Stores stores) {
  Operands o{destinations, num_destinations, sources, num_sources};
  if (stores == Stores::kStream && IsAligned(destinations, num_destinations)) {
    Loop<Element, Op, true>(o, count);
    FinishStreaming();
    return;
  }
  // The compiler unrolls the walk over the sources where it knows how many there are.
  if (num_sources == 2 && num_destinations == 2) {
    o.num_sources = 2;
    o.num_destinations = 2;
    return Loop<Element, Op, false>(o, count);
  }
  Loop<Element, Op, false>(o, count);
}

// Signed sums and products are computed unsigned: the bits are the same and wrapping is defined.
// A reduction that is not defined is null: avg of bool, and everything of fp8.
constexpr Table MakeTable(const char* name) {
  return {
      name,
      {
          // sum: bool i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 f8e4m3 f8e5m2
          {CombineElements<BoolLane, Or>, CombineElements<Plain<uint8_t>, Sum>,
           CombineElements<Plain<uint8_t>, Sum>, CombineElements<Plain<uint16_t>, Sum>,
           CombineElements<Plain<uint16_t>, Sum>, CombineElements<Plain<uint32_t>, Sum>,
           CombineElements<Plain<uint32_t>, Sum>, CombineElements<Plain<uint64_t>, Sum>,
           CombineElements<Plain<uint64_t>, Sum>, CombineElements<Float16Lane, Sum>,
           CombineElements<BFloat16Lane, Sum>, CombineElements<Plain<float>, Sum>,
           CombineElements<Plain<double>, Sum>, nullptr, nullptr},
          // prod
          {CombineElements<BoolLane, Minimum>, CombineElements<Plain<uint8_t>, Product>,
           CombineElements<Plain<uint8_t>, Product>, CombineElements<Plain<uint16_t>, Product>,
           CombineElements<Plain<uint16_t>, Product>, CombineElements<Plain<uint32_t>, Product>,
           CombineElements<Plain<uint32_t>, Product>, CombineElements<Plain<uint64_t>, Product>,
           CombineElements<Plain<uint64_t>, Product>, CombineElements<Float16Lane, Product>,
           CombineElements<BFloat16Lane, Product>, CombineElements<Plain<float>, Product>,
           CombineElements<Plain<double>, Product>, nullptr, nullptr},
          // min
          {CombineElements<BoolLane, Minimum>, CombineElements<Plain<int8_t>, Minimum>,
           CombineElements<Plain<uint8_t>, Minimum>, CombineElements<Plain<int16_t>, Minimum>,
           CombineElements<Plain<uint16_t>, Minimum>, CombineElements<Plain<int32_t>, Minimum>,
           CombineElements<Plain<uint32_t>, Minimum>, CombineElements<Plain<int64_t>, Minimum>,
           CombineElements<Plain<uint64_t>, Minimum>, CombineElements<Float16Lane, Minimum>,
           CombineElements<BFloat16Lane, Minimum>, CombineElements<Plain<float>, Minimum>,
           CombineElements<Plain<double>, Minimum>, nullptr, nullptr},
          // max
          {CombineElements<BoolLane, Or>, CombineElements<Plain<int8_t>, Maximum>,
           CombineElements<Plain<uint8_t>, Maximum>, CombineElements<Plain<int16_t>, Maximum>,
           CombineElements<Plain<uint16_t>, Maximum>, CombineElements<Plain<int32_t>, Maximum>,
           CombineElements<Plain<uint32_t>, Maximum>, CombineElements<Plain<int64_t>, Maximum>,
           CombineElements<Plain<uint64_t>, Maximum>, CombineElements<Float16Lane, Maximum>,
           CombineElements<BFloat16Lane, Maximum>, CombineElements<Plain<float>, Maximum>,
           CombineElements<Plain<double>, Maximum>, nullptr, nullptr},
          // avg
          {nullptr, CombineElements<InDouble<int8_t>, Average>,
           CombineElements<InDouble<uint8_t>, Average>, CombineElements<InDouble<int16_t>, Average>,
           CombineElements<InDouble<uint16_t>, Average>,
           CombineElements<InDouble<int32_t>, Average>,
           CombineElements<InDouble<uint32_t>, Average>,
           CombineElements<Plain<int64_t>, WrappingAverage>,
           CombineElements<Plain<uint64_t>, Average>, CombineElements<Float16Lane, Average>,
           CombineElements<BFloat16Lane, Average>, CombineElements<Plain<float>, Average>,
           CombineElements<Plain<double>, Average>, nullptr, nullptr},
      },
  };
}

}  // namespace
}  // namespace lockstep::collective::kernels
