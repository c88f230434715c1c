// What a register can hold, and what functions take and return.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/device.h"
#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"
#include "runtime/tensor/tensor.h"

namespace lockstep::registers {

// Something with an identity that lives on a worker: a function, a module, or an object of a
// module's own. Held by shared_ptr; dropped with the last register that names it.
class Object {
 public:
  enum class Kind { kFunction, kModule, kPlan, kOpaque };

  virtual ~Object() = default;
  virtual Kind kind() const = 0;
  // For error messages and listings, e.g. "function lockstep.cast".
  virtual std::string Describe() const = 0;
  // Of memory that tensors could be made of; see HeldBytes().
  virtual size_t HeldBytes() const { return 0; }
  // Of more such memory, which is counted by itself (LastingStorage); for listings.
  virtual size_t BytesApart() const { return 0; }
};

struct None {
  bool operator==(const None&) const = default;
};

// Raw bytes, distinct from text.
struct Bytes {
  std::string data;
  bool operator==(const Bytes&) const = default;
};

struct Value;
using List = std::vector<Value>;
using Map = std::map<std::string, Value>;

// Lists and maps are shared and never changed once they are in a Value.
struct Value {
  using Variant = std::variant<None, bool, int64_t, double, std::string, Bytes, DType, Device,
                               Shape, tensor::Tensor, std::shared_ptr<Object>,
                               std::shared_ptr<const List>, std::shared_ptr<const Map>>;

  Value() = default;
  template <typename T, typename = std::enable_if_t<!std::is_same_v<std::decay_t<T>, Value> &&
                                                    std::is_constructible_v<Variant, T>>>
  Value(T&& v) : variant(std::forward<T>(v)) {}  // NOLINT: a Value is made from what it holds

  template <typename T>
  const T* As() const {
    return std::get_if<T>(&variant);
  }
  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(variant);
  }

  Variant variant;
};

// "none", "bool", "int64", "float64", "text", "bytes", "dtype", "device", "shape", "tensor",
// "function", "module", "object", "list", "map": the vocabulary of error messages.
std::string_view TypeName(const Value& value);

// Calls `visit` with the value and with all that lists and maps in it hold; what is shared, once.
void ForEachIn(const Value& value, const std::function<void(const Value&)>& visit);

// Memory that the value keeps: tensors' elements, text, bytes, and what lists and maps hold, each
// of those once. What it shares with other values counts for each value. Objects of modules are not
// known, and count nothing.
size_t HeldBytes(const Value& value);

// For errors: "tensor float32 [2, 3]", "text of 23 bytes", "int64". Never what is in it: a
// client that may look at a cluster reads the errors of all its sessions.
std::string Describe(const Value& value);

}  // namespace lockstep::registers
