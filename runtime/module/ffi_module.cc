#include "runtime/module/ffi_module.h"

#include <dlfcn.h>

#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "runtime/module/ffi_globals.h"
#include "runtime/module/ffi_object.h"
#include "runtime/module/ffi_tensor.h"
#include "runtime/module/ffi_values.h"
#include "runtime/module/module_files.h"
#include "runtime/module/module_versions.h"

namespace lockstep::module {

Status FfiFunction::Call(const CallContext& context, absl::Span<const registers::Value> args,
                         registers::Value* result) {
  FfiArguments arguments;
  LOCKSTEP_RETURN_IF_ERROR(arguments.Convert(args, &context.host->allocator()));
  FfiAny returned;
  {
    const FfiEnvironment environment(context, arguments);
    const Status status = CallFfi(call_, object_.get(), arguments.anys(), &returned);
    arguments.BringBack();
    LOCKSTEP_RETURN_IF_ERROR(status);
  }
  if (returned.get().type_index == kTVMFFINone) {  // as of most: they write to their arguments
    *result = registers::None();
    return OkStatus();
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
      const std::string declaration = "lockstep_may_be_captured_" + own_name;
      return std::shared_ptr<Function>(
          std::make_shared<FfiFunction>(own_name, reinterpret_cast<TVMFFISafeCallType>(address),
                                        dlsym(library_, declaration.c_str()) != nullptr));
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

namespace {

// Those that were there before the first module was loaded: tvm-ffi's own. They are not for
// clients, because some of them open any file.
const StatusOr<std::set<std::string>>& NamesBeforeModules() {
  static const StatusOr<std::set<std::string>> names = GlobalFunctionNames();
  return names;
}

// tvm-ffi gives an error the stack of where it was raised. For the first one it reads the symbols
// of the whole process, which takes up to seconds: better now, beside other work. An error that
// comes meanwhile waits for the rest of it.
void PrepareStacks() {
  static std::once_flag once;
  std::call_once(
      once, [] { std::thread([] { (void)TVMFFIBacktrace(nullptr, 0, nullptr, 0); }).detach(); });
}

}  // namespace

StatusOr<std::shared_ptr<Function>> FindGlobalFunction(std::string_view name) {
  const auto& reserved = NamesBeforeModules();
  LOCKSTEP_RETURN_IF_ERROR(reserved.status());
  const TVMFFIByteArray bytes{name.data(), name.size()};
  TVMFFIObjectHandle found = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(CheckFfi(TVMFFIFunctionGetGlobal(&bytes, &found)));
  FfiRef object = FfiRef::Adopt(found);
  if (!object || reserved->contains(std::string(name))) {
    return NotFound("no loaded module has registered a function \"", name, "\"");
  }
  return std::shared_ptr<Function>(
      std::make_shared<FfiFunction>(std::string(name), std::move(object)));
}

StatusOr<std::shared_ptr<Module>> LoadModule(const std::string& path,
                                             const std::vector<std::string>& directories,
                                             const std::vector<std::string>& sha256) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string file, FindModule(path, directories));
  LOCKSTEP_RETURN_IF_ERROR(CheckDigest(file, sha256));
  LOCKSTEP_RETURN_IF_ERROR(NamesBeforeModules().status());
  LOCKSTEP_ASSIGN_OR_RETURN(const OpenedLibrary library, OpenLibrary(file));
  // The runtime opens the same library once more, to set up what compiled modules expect of it.
  const TVMFFIAny args[] = {BorrowText(library.name), BorrowText(library.name)};
  StatusOr<FfiAny> object = CallFfiGlobal("ffi.Module.load_from_file.so", args);
  if (!object.ok()) {
    return InvalidArgument("module ", file, " cannot be loaded: ", Message(object.status()));
  }
  PrepareStacks();
  return std::shared_ptr<Module>(
      std::make_shared<FfiModule>(file, FfiRef::Share(object->get().v_obj), library.handle));
}

}  // namespace lockstep::module
