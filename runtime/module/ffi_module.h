// A module as tvm-ffi's runtime sees it.
#pragma once

#include <string>
#include <utility>

#include "runtime/module/ffi_object.h"
#include "runtime/module/module.h"

namespace lockstep::module {

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
