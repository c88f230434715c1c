#include "runtime/module/ffi_module.h"

#include <dlfcn.h>

#include <utility>

#include "runtime/module/ffi_object.h"
#include "runtime/module/ffi_tensor.h"
#include "runtime/module/ffi_values.h"
#include "runtime/module/module_files.h"

namespace lockstep::module {

Status FfiFunction::Call(const CallContext& context, absl::Span<const registers::Value> args,
                         registers::Value* result) {
  FfiArguments arguments;
  LOCKSTEP_RETURN_IF_ERROR(arguments.Convert(args, &context.host->allocator()));
  FfiAny returned;
  {
    const FfiEnvironment environment(context);
    const Status status = CallFfi(call_, object_.get(), arguments.anys(), &returned);
    arguments.BringBack();
    LOCKSTEP_RETURN_IF_ERROR(status);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(*result, FromFfi(returned.get(), arguments));
  return OkStatus();
}

StatusOr<FfiRef> FfiFunction::ffi_object() const {
  if (object_) return object_;
  TVMFFIObjectHandle handle = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(
      CheckFfi(TVMFFIFunctionCreate(/*self=*/nullptr, call_, /*deleter=*/nullptr, &handle)));
  return FfiRef::Adopt(handle);
}

namespace {

TVMFFIAny BorrowText(const std::string& text) {
  TVMFFIAny any = MakeFfiAny(kTVMFFIRawStr);
  any.v_c_str = text.c_str();
  return any;
}

}  // namespace

StatusOr<std::shared_ptr<Function>> FfiModule::GetFunction(std::string_view name) const {
  const std::string own_name(name);
  if (name.empty() || name.find('\0') != std::string_view::npos) {
    return InvalidArgument("a function's name is text without zero bytes, and not empty");
  }
  const std::string symbol = "__tvm_ffi_" + own_name;
  if (library_ != nullptr) {
    if (void* address = dlsym(library_, symbol.c_str()); address != nullptr) {
      return std::shared_ptr<Function>(
          std::make_shared<FfiFunction>(own_name, reinterpret_cast<TVMFFISafeCallType>(address)));
    }
  }
  // Modules that a compiler packed into this one are known to the runtime alone.
  TVMFFIAny query_imports = MakeFfiAny(kTVMFFIBool);
  query_imports.v_int64 = 1;
  const TVMFFIAny args[] = {BorrowFfiAny(object_.get()), BorrowText(own_name), query_imports};
  LOCKSTEP_ASSIGN_OR_RETURN(const FfiAny found, CallFfiGlobal("ffi.ModuleGetFunction", args));
  if (found.get().type_index != kTVMFFIFunction) {
    return NotFound(Describe(), " has no function \"", name, "\": neither it nor a module inside ",
                    "it defines the symbol ", symbol);
  }
  return std::shared_ptr<Function>(
      std::make_shared<FfiFunction>(own_name, FfiRef::Share(found.get().v_obj)));
}

StatusOr<std::shared_ptr<Module>> LoadModule(const std::string& path,
                                             const std::vector<std::string>& directories,
                                             const std::vector<std::string>& sha256) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string file, FindModule(path, directories));
  LOCKSTEP_RETURN_IF_ERROR(CheckDigest(file, sha256));
  // Undefined symbols are found now, with a message, and not in the middle of a call.
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    return InvalidArgument("module ", file, " cannot be loaded: ", dlerror());
  }
  // The runtime opens the same library once more, to set up what compiled modules expect of it.
  const TVMFFIAny args[] = {BorrowText(file), BorrowText(file)};
  StatusOr<FfiAny> object = CallFfiGlobal("ffi.Module.load_from_file.so", args);
  if (!object.ok()) {
    dlclose(library);
    return InvalidArgument("module ", file, " cannot be loaded: ", Message(object.status()));
  }
  return std::shared_ptr<Module>(
      std::make_shared<FfiModule>(file, FfiRef::Share(object->get().v_obj), library));
}

}  // namespace lockstep::module
