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

// Loads the library at `path`. A relative path is looked for in each of `directories`, in order.
// Symbolic links are resolved first; what they lead to must lie in or below one of `directories`,
// the ones that the operator allowed.
//
// A library stays loaded until the process ends, because objects and functions that came from it
// may be anywhere; loading it again is cheap and gives the same code.
//
// Errors: kPermissionDenied   outside the directories, or there are none
//         kNotFound           no such file
//         kInvalidArgument    not a library that can be loaded; the dynamic linker's reason
StatusOr<std::shared_ptr<Module>> LoadModule(const std::string& path,
                                             const std::vector<std::string>& directories);

}  // namespace lockstep::module
