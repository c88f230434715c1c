// Modules: shared libraries with functions by tvm-ffi's C ABI.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/module/function.h"
#include "runtime/registers/value.h"

namespace lockstep::module {

// Threads: safe.
class Module : public registers::Object {
 public:
  Kind kind() const final { return Kind::kModule; }

  // The function called `name`. kNotFound says what was looked for.
  virtual StatusOr<std::shared_ptr<Function>> GetFunction(std::string_view name) const = 0;
};

// Loads the library at `path`, which FindModule() finds in `directories`, the ones that the
// operator allowed, if it has one of the digests `sha256`, or none are given (module_files.h).
//
// A library stays loaded until the process ends, because objects and functions that came from it
// may be anywhere; loading it again is cheap and gives the same code. A file that has replaced it
// since is loaded beside it where that is safe (module_versions.h).
//
// Errors: kPermissionDenied    outside the directories, or there are none; another digest
//         kNotFound            no such file
//         kInvalidArgument     not a library that can be loaded; the dynamic linker's reason
//         kFailedPrecondition  the file has changed since it was loaded, and cannot be loaded now
StatusOr<std::shared_ptr<Module>> LoadModule(const std::string& path,
                                             const std::vector<std::string>& directories,
                                             const std::vector<std::string>& sha256 = {});

// The function that a loaded module has registered for its whole process under a global name
// (TVMFFIFunctionSetGlobal). tvm-ffi's own ("ffi.Module.load_from_file.so") are not among them.
// kNotFound if there is none.
StatusOr<std::shared_ptr<Function>> FindGlobalFunction(std::string_view name);

}  // namespace lockstep::module
