// The functions that come with Lockstep, "lockstep.<name>". README.md lists them.
#pragma once

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/module/arg_reader.h"
#include "runtime/module/function.h"

namespace lockstep::module {

// Adds all of them.
void AddBuiltins(FunctionTable& table);

// One of them: what it is called, and what it does.
struct Builtin {
  const char* name;
  Status (*body)(const CallContext& context, ArgReader& in, registers::Value* result);
  int target = -1;  // the argument that it writes to; -1: none
};

// The three families: make tensors; reshape, cut and convert them; and everything else.
absl::Span<const Builtin> CreationBuiltins();
absl::Span<const Builtin> TransformBuiltins();
absl::Span<const Builtin> ControlBuiltins();

}  // namespace lockstep::module
