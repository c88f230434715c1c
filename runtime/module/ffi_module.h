// Modules and their functions, as tvm-ffi's C convention has them.
#pragma once

#include <string>
#include <utility>

#include "runtime/module/ffi_object.h"
#include "runtime/module/function.h"
#include "runtime/module/module.h"

namespace lockstep::module {

// Errors of Call(): kInvalidArgument and kInternal as CallFfi() says; kInvalidArgument for an
//                   argument, kInternal for a result, that cannot cross (ffi_values.h).
class FfiFunction final : public Function, public HasFfiObject {
 public:
  // A symbol of a library that stays loaded, which says of it whether it may be captured.
  FfiFunction(std::string name, TVMFFISafeCallType symbol, bool may_be_captured)
      : name_(std::move(name)), call_(symbol), may_be_captured_(may_be_captured) {}
  // A function object.
  FfiFunction(std::string name, FfiRef object)
      : name_(std::move(name)),
        call_(TVMFFIFunctionGetCellPtr(object.get())->safe_call),
        object_(std::move(object)) {}

  const std::string& name() const override { return name_; }
  bool MayBeCaptured() const override { return may_be_captured_; }
  Status Call(const CallContext& context, absl::Span<const registers::Value> args,
              registers::Value* result) override;
  StatusOr<FfiRef> ffi_object() const override;

 private:
  const std::string name_;
  const TVMFFISafeCallType call_;
  const FfiRef object_;  // null for a symbol
  const bool may_be_captured_ = false;
};

// A module as tvm-ffi's runtime sees it.
class FfiModule final : public Module, public HasFfiObject {
 public:
  // `library` is what dlopen() returned, or null if the module is no library of its own.
  FfiModule(std::string name, FfiRef object, void* library = nullptr)
      : name_(std::move(name)), object_(std::move(object)), library_(library) {}

  std::string Describe() const override { return "module " + name_; }
  StatusOr<std::shared_ptr<Function>> GetFunction(std::string_view name) const override;
  StatusOr<FfiRef> ffi_object() const override { return object_; }

 private:
  const std::string name_;
  const FfiRef object_;
  void* const library_;
};

}  // namespace lockstep::module
