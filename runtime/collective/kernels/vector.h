// Vectors of elements, for the instruction set that the including file is compiled for.
//
// Written with the compilers' vector extensions, so that any architecture works; only what these
// cannot say (streaming stores, half precision) uses intrinsics. Everything is in an unnamed
// namespace and inlined: no function compiled for one instruction set may reach code of another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep::collective::kernels {
namespace {

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

#define LOCKSTEP_INLINE __attribute__((always_inline)) inline

template <typename T, int kLanes>
struct VectorOf {
  typedef T type __attribute__((vector_size(sizeof(T) * kLanes)));  // NOLINT: `using` cannot
};
template <typename T, int kLanes>
using Vec = typename VectorOf<T, kLanes>::type;

template <typename V>
LOCKSTEP_INLINE V LoadUnaligned(const void* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}

template <bool kStream, typename V>
LOCKSTEP_INLINE void StoreTo(void* to, V v) {
#if defined(__x86_64__)
  if constexpr (kStream && sizeof(V) == 16) {
    return _mm_stream_si128(static_cast<__m128i*>(to), reinterpret_cast<__m128i>(v));
  }
#if defined(__AVX2__)
  if constexpr (kStream && sizeof(V) == 32) {
    return _mm256_stream_si256(static_cast<__m256i*>(to), reinterpret_cast<__m256i>(v));
  }
#endif
#if defined(__AVX512F__)
  if constexpr (kStream && sizeof(V) == 64) {
    return _mm512_stream_si512(static_cast<__m512i*>(to), reinterpret_cast<__m512i>(v));
  }
#endif
#endif
  __builtin_memcpy(to, &v, sizeof(v));
}

// Streaming stores are not ordered with later ones; this makes them visible first.
LOCKSTEP_INLINE void FinishStreaming() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

// An element type: how it is stored, and what it is computed in. `kLanes` elements of the compute
// type fill one vector.
template <typename T>
struct Plain {
  using Stored = T;
  using Computed = T;
  template <int kLanes>
  static LOCKSTEP_INLINE Vec<T, kLanes> Widen(Vec<T, kLanes> v) {
    return v;
  }
  template <int kLanes>
  static LOCKSTEP_INLINE Vec<T, kLanes> Narrow(Vec<T, kLanes> v) {
    return v;
  }
};

// A bool: any byte but 0 is true, and 1 is written. The minimum of bytes is their "and", `|` and
// the maximum their "or", whichever bytes stand for true.
struct BoolLane {
  using Stored = uint8_t;
  using Computed = uint8_t;
  template <int kLanes>
  static LOCKSTEP_INLINE Vec<uint8_t, kLanes> Widen(Vec<uint8_t, kLanes> v) {
    return v;
  }
  template <int kLanes>
  static LOCKSTEP_INLINE Vec<uint8_t, kLanes> Narrow(Vec<uint8_t, kLanes> v) {
    const Vec<uint8_t, kLanes> yes = Vec<uint8_t, kLanes>{} + 1;
    return v < yes ? v : yes;
  }
};

// Integers up to 32 bits whose sum must not wrap: a double holds it exactly.
template <typename T>
struct InDouble {
  using Stored = T;
  using Computed = double;
  template <int kLanes>
  static LOCKSTEP_INLINE Vec<double, kLanes> Widen(Vec<T, kLanes> v) {
    return __builtin_convertvector(v, Vec<double, kLanes>);
  }
  template <int kLanes>
  static LOCKSTEP_INLINE Vec<T, kLanes> Narrow(Vec<double, kLanes> v) {
    // By way of int64: a direct conversion to a narrow unsigned type is undefined before it wraps.
    return __builtin_convertvector(__builtin_convertvector(v, Vec<int64_t, kLanes>),
                                   Vec<T, kLanes>);
  }
};

template <int kLanes>
using Bits = Vec<uint32_t, kLanes>;
template <int kLanes>
using Floats = Vec<float, kLanes>;

// bfloat16: a float without its lower half.
struct BFloat16Lane {
  using Stored = uint16_t;
  using Computed = float;
  template <int kLanes>
  static LOCKSTEP_INLINE Floats<kLanes> Widen(Vec<uint16_t, kLanes> v) {
    return reinterpret_cast<Floats<kLanes>>(__builtin_convertvector(v, Bits<kLanes>) << 16);
  }
  template <int kLanes>
  static LOCKSTEP_INLINE Vec<uint16_t, kLanes> Narrow(Floats<kLanes> v) {
    const auto bits = reinterpret_cast<Bits<kLanes>>(v);
    const Bits<kLanes> rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    // Rounding could turn a NaN into an infinity: make it quiet instead.
    const Bits<kLanes> nan = (bits >> 16) | 0x40;
    return __builtin_convertvector((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded,
                                   Vec<uint16_t, kLanes>);
  }
};

// IEEE binary16. The arithmetic below is what the hardware conversions do.
struct Float16Lane {
  using Stored = uint16_t;
  using Computed = float;

  template <int kLanes>
  static LOCKSTEP_INLINE Floats<kLanes> Widen(Vec<uint16_t, kLanes> v) {
#if defined(__AVX512F__)
    if constexpr (kLanes == 16) {
      // The form with a mask, because g++ 12 warns of its own header in the one without.
      return reinterpret_cast<Floats<kLanes>>(
          _mm512_maskz_cvtph_ps(__mmask16{0xffff}, reinterpret_cast<__m256i>(v)));
    }
#endif
#if defined(__F16C__)
    if constexpr (kLanes == 8) {
      return reinterpret_cast<Floats<kLanes>>(_mm256_cvtph_ps(reinterpret_cast<__m128i>(v)));
    }
#endif
    const Bits<kLanes> half = __builtin_convertvector(v, Bits<kLanes>);
    const Bits<kLanes> magnitude = (half & 0x7fff) << 13;
    const Bits<kLanes> exponent = half & 0x7c00;
    // Normal numbers: the exponent's bias grows from 15 to 127.
    const Bits<kLanes> normal = magnitude + (112u << 23);
    // Subnormal: let the subtraction normalise it.
    const auto scale = reinterpret_cast<Floats<kLanes>>(Bits<kLanes>{} + (113u << 23));
    const auto subnormal = reinterpret_cast<Bits<kLanes>>(
        reinterpret_cast<Floats<kLanes>>(magnitude + (113u << 23)) - scale);
    // A signalling NaN becomes quiet.
    const Bits<kLanes> quiet = (half & 0x3ff) != 0 ? Bits<kLanes>{} + 0x400000 : Bits<kLanes>{};
    const Bits<kLanes> special = (magnitude + (224u << 23)) | quiet;
    Bits<kLanes> result = exponent == 0 ? subnormal : normal;
    result = exponent == 0x7c00 ? special : result;
    return reinterpret_cast<Floats<kLanes>>(result | ((half & 0x8000) << 16));
  }

  template <int kLanes>
  static LOCKSTEP_INLINE Vec<uint16_t, kLanes> Narrow(Floats<kLanes> v) {
#if defined(__AVX512F__)
    if constexpr (kLanes == 16) {
      return reinterpret_cast<Vec<uint16_t, kLanes>>(_mm512_maskz_cvtps_ph(
          __mmask16{0xffff}, reinterpret_cast<__m512>(v), _MM_FROUND_TO_NEAREST_INT));
    }
#endif
#if defined(__F16C__)
    if constexpr (kLanes == 8) {
      return reinterpret_cast<Vec<uint16_t, kLanes>>(
          _mm256_cvtps_ph(reinterpret_cast<__m256>(v), _MM_FROUND_TO_NEAREST_INT));
    }
#endif
    const auto bits = reinterpret_cast<Bits<kLanes>>(v);
    const Bits<kLanes> magnitude = bits & 0x7fffffff;
    const Bits<kLanes> normal = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    // Below 2^-14, adding a number whose last bit is worth one subnormal step rounds correctly.
    const auto step = reinterpret_cast<Floats<kLanes>>(Bits<kLanes>{} + (126u << 23));
    const auto subnormal =
        reinterpret_cast<Bits<kLanes>>(reinterpret_cast<Floats<kLanes>>(magnitude) + step) -
        (126u << 23);
    const Bits<kLanes> nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
    Bits<kLanes> result = magnitude < (113u << 23) ? subnormal : normal;
    result = magnitude >= (143u << 23) ? Bits<kLanes>{} + 0x7c00 : result;
    result = magnitude > 0x7f800000 ? nan : result;
    return __builtin_convertvector(result | ((bits >> 16) & 0x8000), Vec<uint16_t, kLanes>);
  }
};

}  // namespace
}  // namespace lockstep::collective::kernels
