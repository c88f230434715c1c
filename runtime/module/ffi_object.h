// tvm-ffi's reference-counted objects, and calls by its C convention with the errors they leave.
//
// Only the C layer of tvm-ffi is used here and in the files beside this one: its C++ headers
// promise no stable ABI.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/registers/value.h"
#include "tvm/ffi/c_api.h"

namespace lockstep::module {

// One reference to an object, or none. Copying takes another.
class FfiRef {
 public:
  FfiRef() = default;
  // Takes a reference over that the caller owned.
  static FfiRef Adopt(TVMFFIObjectHandle object) { return FfiRef(object); }
  // Takes a new reference.
  static FfiRef Share(TVMFFIObjectHandle object) {
    if (object != nullptr) TVMFFIObjectIncRef(object);
    return FfiRef(object);
  }

  FfiRef(const FfiRef& other) : FfiRef(Share(other.object_)) {}
  FfiRef(FfiRef&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  FfiRef& operator=(FfiRef other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~FfiRef() {
    if (object_ != nullptr) TVMFFIObjectDecRef(object_);
  }

  TVMFFIObject* get() const { return static_cast<TVMFFIObject*>(object_); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  explicit FfiRef(TVMFFIObjectHandle object) : object_(object) {}

  TVMFFIObjectHandle object_ = nullptr;
};

// A value that tvm-ffi handed out: it holds a reference if it is an object.
class FfiAny {
 public:
  FfiAny() = default;
  FfiAny(FfiAny&& other) noexcept : any_(std::exchange(other.any_, kNone)) {}
  FfiAny& operator=(FfiAny&& other) noexcept {
    std::swap(any_, other.any_);
    return *this;
  }
  ~FfiAny() {
    if (IsObject()) TVMFFIObjectDecRef(any_.v_obj);
  }

  const TVMFFIAny& get() const { return any_; }
  // Where a callee writes its result; only while this is none.
  TVMFFIAny* out() { return &any_; }
  bool IsObject() const { return any_.type_index >= kTVMFFIStaticObjectBegin; }

 private:
  static constexpr TVMFFIAny kNone{};

  TVMFFIAny any_{};
};

inline TVMFFIAny MakeFfiAny(int32_t type_index) {
  TVMFFIAny any{};
  any.type_index = type_index;
  return any;
}
inline TVMFFIAny BorrowFfiAny(TVMFFIObject* object) {
  TVMFFIAny any = MakeFfiAny(object->type_index);
  any.v_obj = object;
  return any;
}

// Implemented by the Objects that a function of a module can be given back.
class HasFfiObject {
 public:
  virtual ~HasFfiObject() = default;
  virtual StatusOr<FfiRef> ffi_object() const = 0;
};

// An object of a module's own type: kept, passed back, never looked into.
class FfiOpaque final : public registers::Object, public HasFfiObject {
 public:
  explicit FfiOpaque(FfiRef object) : object_(std::move(object)) {}

  Kind kind() const override { return Kind::kOpaque; }
  std::string Describe() const override;  // "object my.Type"
  StatusOr<FfiRef> ffi_object() const override { return object_; }

 private:
  const FfiRef object_;
};

// "ffi.Map", "my.Type": the name that a type was registered under.
std::string FfiTypeKey(int32_t type_index);

// Calls `function` with `self` and borrowed `args`; `result` is none before.
//
// Errors: what the function raised, as "raised <kind>: <message>" and with its backtrace (see
//         base/status.h). TypeError, ValueError and IndexError mean wrong arguments and become
//         kInvalidArgument; MemoryError becomes kResourceExhausted; any other kind becomes
//         kInternal, as does whatever is thrown across, which the convention forbids.
Status CallFfi(TVMFFISafeCallType function, void* self, absl::Span<const TVMFFIAny> args,
               FfiAny* result);

// The kind by which a module is told of an error, so that it becomes the same code again.
const char* FfiKindOf(const Status& status);

// Makes `message` this thread's error, without a stack: for functions that return -1 then.
void RaiseFfi(std::string_view kind, std::string_view message);

// Turns a return code of the C API itself into a Status, in the same way.
Status CheckFfi(int code);

// Calls a function that the runtime registered under a global name ("ffi.Array").
// kUnimplemented if this version of the runtime has none.
StatusOr<FfiAny> CallFfiGlobal(const char* name, absl::Span<const TVMFFIAny> args);

}  // namespace lockstep::module
