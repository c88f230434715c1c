// A function of a module, called by tvm-ffi's C convention.
#pragma once

#include <string>

#include "runtime/module/ffi_object.h"
#include "runtime/module/function.h"

namespace lockstep::module {

// Errors of Call(): kInvalidArgument and kInternal as CallFfi() says; kInvalidArgument for an
//                   argument, kInternal for a result, that cannot cross (ffi_values.h).
class FfiFunction final : public Function, public HasFfiObject {
 public:
  // A symbol of a library that stays loaded.
  FfiFunction(std::string name, TVMFFISafeCallType symbol)
      : name_(std::move(name)), call_(symbol) {}
  // A function object.
  FfiFunction(std::string name, FfiRef object)
      : name_(std::move(name)),
        call_(TVMFFIFunctionGetCellPtr(object.get())->safe_call),
        object_(std::move(object)) {}

  const std::string& name() const override { return name_; }
  Status Call(const CallContext& context, absl::Span<const registers::Value> args,
              registers::Value* result) override;
  StatusOr<FfiRef> ffi_object() const override;

 private:
  const std::string name_;
  const TVMFFISafeCallType call_;
  const FfiRef object_;  // null for a symbol
};

}  // namespace lockstep::module
