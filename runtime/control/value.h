// Values as they cross the wire: what calls take, and what DebugGet returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/device.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"

namespace lockstep {

struct None {
  bool operator==(const None&) const = default;
};

// Raw bytes, distinct from text.
struct Bytes {
  std::string data;
  bool operator==(const Bytes&) const = default;
};

// A dense, row-major tensor in the client's memory. `data` holds exactly shape x dtype bytes.
struct HostTensor {
  DType dtype = DType::kUInt8;
  Shape shape;
  std::string data;

  template <typename T>
  static HostTensor Of(Shape shape, absl::Span<const T> elements) {
    HostTensor tensor{DTypeOf<T>::value, std::move(shape), std::string()};
    tensor.data.assign(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(T));
    return tensor;
  }
  // The elements, if dtype is T's.
  template <typename T>
  StatusOr<std::vector<T>> Elements() const {
    if (DTypeOf<T>::value != dtype) {
      return InvalidArgument("the tensor holds ", dtype, ", not ", DTypeOf<T>::value);
    }
    std::vector<T> elements(data.size() / sizeof(T));
    if (!data.empty()) std::memcpy(elements.data(), data.data(), elements.size() * sizeof(T));
    return elements;
  }
  bool operator==(const HostTensor&) const = default;
};

// Something that stays on its worker (a function, a module, an opaque object): its description.
// Only ever received.
struct RemoteObject {
  std::string description;
  bool operator==(const RemoteObject&) const = default;
};

class DRef;  // of the client library

// A register, as a list or map that a client sends names it: made of a DRef, which it keeps. The
// worker puts the register's value in its place. Only the session that it belongs to takes it.
struct RegisterRef {
  SessionId session;
  RegisterId id;
  std::shared_ptr<const DRef> name = nullptr;
  bool operator==(const RegisterRef& other) const {
    return session == other.session && id == other.id;
  }
};

// Threads: a plain value. Ownership: deep copies.
struct Value {
  using List = std::vector<Value>;
  using Map = std::map<std::string, Value>;
  using Variant = std::variant<None, bool, int64_t, double, std::string, Bytes, DType, Device,
                               Shape, RegisterId, HostTensor, List, Map, RemoteObject, RegisterRef>;

  Value() = default;
  // Exactly bool: a pointer converts to one, but is no value. Pass what it points to.
  template <typename T>
  requires(std::is_same_v<T, bool>) Value(T v) : variant(v) {}  // NOLINT: values convert freely
  template <typename T>
  requires(!std::is_same_v<std::remove_cv_t<T>, char>) Value(T* v)
  = delete;
  Value(double v) : variant(v) {}                         // NOLINT
  Value(float v) : variant(static_cast<double>(v)) {}     // NOLINT
  Value(const char* v) : variant(std::string(v)) {}       // NOLINT
  Value(std::string_view v) : variant(std::string(v)) {}  // NOLINT
  Value(std::string v) : variant(std::move(v)) {}         // NOLINT
  // Integers of any width; a uint64 above 2^63 - 1 wraps, as in C++.
  template <typename T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) Value(T v)
      : variant(static_cast<int64_t>(v)) {}  // NOLINT
  template <typename T>
  requires(std::is_same_v<T, None> || std::is_same_v<T, Bytes> || std::is_same_v<T, DType> ||
           std::is_same_v<T, Device> || std::is_same_v<T, Shape> || std::is_same_v<T, RegisterId> ||
           std::is_same_v<T, HostTensor> || std::is_same_v<T, List> || std::is_same_v<T, Map> ||
           std::is_same_v<T, RemoteObject> || std::is_same_v<T, RegisterRef>) Value(T v)
      : variant(std::move(v)) {}  // NOLINT

  template <typename T>
  const T* As() const {
    return std::get_if<T>(&variant);
  }
  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(variant);
  }
  bool operator==(const Value&) const = default;

  Variant variant;
};

// "none", "bool", "int64", "float64", "text", "bytes", "dtype", "device", "shape", "register",
// "tensor", "list", "map", "object"; a RegisterRef is a "register", too.
std::string_view TypeName(const Value& value);

// A rendering for people; tensors show their first `max_elements` elements.
std::string ToString(const Value& value, int max_elements = 16);

}  // namespace lockstep
