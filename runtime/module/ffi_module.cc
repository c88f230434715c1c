#include "runtime/module/ffi_module.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include "runtime/module/ffi_call.h"
#include "runtime/module/ffi_function.h"

namespace lockstep::module {
namespace {

namespace fs = std::filesystem;

std::string Listed(const std::vector<std::string>& directories) {
  std::string text;
  for (const std::string& directory : directories) {
    text += (text.empty() ? "" : ", ") + directory;
  }
  return text;
}

bool LiesBelow(const fs::path& file, const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    std::error_code error;
    const fs::path root = fs::canonical(directory, error);
    if (error) continue;  // a directory that does not exist holds nothing
    const auto [root_end, file_at] =
        std::mismatch(root.begin(), root.end(), file.begin(), file.end());
    if (root_end == root.end()) return true;
  }
  return false;
}

// The file that `path` means, all symbolic links resolved.
StatusOr<fs::path> Resolve(const std::string& path, const std::vector<std::string>& directories) {
  if (directories.empty()) {
    return PermissionDenied("module \"", path,
                            "\" cannot be loaded: the operator allowed no directory of modules");
  }
  std::vector<fs::path> candidates;
  if (fs::path(path).is_absolute()) {
    candidates.emplace_back(path);
  } else {
    for (const std::string& directory : directories)
      candidates.push_back(fs::path(directory) / path);
  }
  for (const fs::path& candidate : candidates) {
    std::error_code error;
    fs::path file = fs::canonical(candidate, error);
    if (error) continue;
    if (!LiesBelow(file, directories)) {
      return PermissionDenied("module \"", path, "\" is ", file.string(),
                              ", which is outside the allowed directories: ", Listed(directories));
    }
    if (fs::is_regular_file(file, error)) return file;
  }
  return NotFound("there is no module file \"", path, "\"; the allowed directories are ",
                  Listed(directories));
}

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
                                             const std::vector<std::string>& directories) {
  LOCKSTEP_ASSIGN_OR_RETURN(const fs::path file, Resolve(path, directories));
  // Undefined symbols are found now, with a message, and not in the middle of a call.
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    return InvalidArgument("module ", file.string(), " cannot be loaded: ", dlerror());
  }
  // The runtime opens the same library once more, to set up what compiled modules expect of it.
  const std::string file_name = file.string();
  const TVMFFIAny args[] = {BorrowText(file_name), BorrowText(file_name)};
  StatusOr<FfiAny> object = CallFfiGlobal("ffi.Module.load_from_file.so", args);
  if (!object.ok()) {
    dlclose(library);
    return InvalidArgument("module ", file_name, " cannot be loaded: ", Message(object.status()));
  }
  return std::shared_ptr<Module>(
      std::make_shared<FfiModule>(file_name, FfiRef::Share(object->get().v_obj), library));
}

}  // namespace lockstep::module
