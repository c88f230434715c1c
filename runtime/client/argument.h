// Arguments of calls, as Session::Call takes them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/types/span.h"
#include "runtime/base/device.h"
#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"
#include "runtime/client/dref.h"
#include "runtime/control/value.h"

namespace lockstep::client {

// A borrowed view of one argument, made and encoded within one call: no copy, no allocation.
class Argument {
 public:
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInt64,
    kFloat64,
    kText,
    kBytes,
    kDType,
    kDevice,
    kShape,
    kDRef,
    kTensor,
    kValue,
    kTooLarge,  // an unsigned integer beyond int64; integer() has its bits
  };

  // NOLINTBEGIN(google-explicit-constructor): the point is that a call takes its arguments as they
  // are
  Argument(std::nullptr_t) : kind_(Kind::kNone) {}
  Argument(None) : kind_(Kind::kNone) {}
  // Exactly bool: pointers and much else convert to one, but are no truth values.
  template <typename T>
  requires(std::is_same_v<T, bool>) Argument(T v) : kind_(Kind::kBool) {
    scalar_.integer = v ? 1 : 0;
  }
  // A pointer means nothing on another machine: pass what it points to (`*p`), a Bytes, or a
  // HostTensor.
  template <typename T>
  requires(!std::is_same_v<std::remove_cv_t<T>, char>) Argument(T* v)
  = delete;
  // One that is beyond int64 is refused by the call that gets it.
  template <typename T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) Argument(T v)
      : kind_(std::is_signed_v<T> || static_cast<uint64_t>(v) <= kMostInt64 ? Kind::kInt64
                                                                            : Kind::kTooLarge) {
    scalar_.integer = static_cast<int64_t>(v);
  }
  template <typename T>
  requires(std::is_floating_point_v<T>) Argument(T v) : kind_(Kind::kFloat64) {
    scalar_.real = static_cast<double>(v);
  }
  Argument(const char* v) : Argument(std::string_view(v)) {}
  Argument(const std::string& v) : Argument(std::string_view(v)) {}
  Argument(std::string_view v) : kind_(Kind::kText), size_(v.size()) { scalar_.pointer = v.data(); }
  Argument(const Bytes& v) : kind_(Kind::kBytes) { scalar_.pointer = &v; }
  Argument(DType v) : kind_(Kind::kDType) { scalar_.integer = static_cast<int64_t>(v); }
  Argument(const Device& v) : kind_(Kind::kDevice) { scalar_.pointer = &v; }
  Argument(const Shape& v) : kind_(Kind::kShape) { scalar_.pointer = &v; }
  Argument(const DRef& v) : kind_(Kind::kDRef) { scalar_.pointer = &v; }
  Argument(const HostTensor& v) : kind_(Kind::kTensor) { scalar_.pointer = &v; }
  Argument(const Value& v) : kind_(Kind::kValue) { scalar_.pointer = &v; }
  // NOLINTEND(google-explicit-constructor)

  Kind kind() const { return kind_; }
  int64_t integer() const { return scalar_.integer; }
  double real() const { return scalar_.real; }
  std::string_view text() const { return {static_cast<const char*>(scalar_.pointer), size_}; }
  template <typename T>
  const T& object() const {
    return *static_cast<const T*>(scalar_.pointer);
  }

 private:
  static constexpr uint64_t kMostInt64 = std::numeric_limits<int64_t>::max();

  Kind kind_;
  union {
    int64_t integer;
    double real;
    const void* pointer;
  } scalar_{};
  size_t size_ = 0;
};

template <size_t N>
using ArgumentList = std::array<Argument, N>;

}  // namespace lockstep::client
