// What libraries have registered with tvm-ffi for the whole process.
#pragma once

#include <set>
#include <string>

#include "runtime/base/status.h"

namespace lockstep::module {

// The names of global functions (TVMFFIFunctionSetGlobal).
StatusOr<std::set<std::string>> GlobalFunctionNames();

// All that is registered, for people: "function \"a.b\"", "type \"c.D\"".
StatusOr<std::set<std::string>> GlobalRegistrations();

}  // namespace lockstep::module
