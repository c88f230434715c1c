// Built-in functions as tvm-ffi's function objects, so that a module's function can call them.
#pragma once

#include <memory>

#include "runtime/base/status.h"
#include "runtime/module/ffi_object.h"
#include "runtime/module/function.h"

namespace lockstep::module {

// An object that calls `function`, and keeps it alive.
//
// It may be called by the function of a module that the worker is calling, on the same thread: from
// there it has the worker's memory. Called at any other time it raises "RuntimeError". Its
// arguments and its result cross as those of a module's functions do (ffi_values.h), with one
// exception: a view that the worker had to lend as a copy is refused ("ValueError").
StatusOr<FfiRef> ToFfiCallable(std::shared_ptr<Function> function);

}  // namespace lockstep::module
