// Calls by tvm-ffi's C convention, and the errors they leave behind.
#pragma once

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/module/ffi_object.h"

namespace lockstep::module {

// Calls `function` with `self` and borrowed `args`; `result` is none before.
//
// Errors: what the function raised, as "raised <kind>: <message>" and with its backtrace (see
//         base/status.h). TypeError, ValueError and IndexError mean wrong arguments and become
//         kInvalidArgument; any other kind becomes kInternal, as does whatever is thrown across,
//         which the convention forbids.
Status CallFfi(TVMFFISafeCallType function, void* self, absl::Span<const TVMFFIAny> args,
               FfiAny* result);

// Turns a return code of the C API itself into a Status, in the same way.
Status CheckFfi(int code);

// Calls a function that the runtime registered under a global name ("ffi.Array").
// kUnimplemented if this version of the runtime has none.
StatusOr<FfiAny> CallFfiGlobal(const char* name, absl::Span<const TVMFFIAny> args);

}  // namespace lockstep::module
