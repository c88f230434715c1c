// The functions that come with Lockstep, "lockstep.<name>". README.md lists them.
#pragma once

#include <optional>
#include <string_view>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/module/arg_reader.h"
#include "runtime/module/function.h"

namespace lockstep::module {

// Whether the built-in function of that name may be captured (Function::MayBeCaptured()); nothing:
// there is none.
std::optional<bool> BuiltinMayBeCaptured(std::string_view name);

// Adds all of them.
void AddBuiltins(FunctionTable& table);

// Of Builtin: by name, because rows of tables say it.
inline constexpr int kNoTarget = -1;
inline constexpr bool kCaptured = true;

// One of them: what it is called, and what it does.
struct Builtin {
  const char* name;
  Status (*body)(const CallContext& context, ArgReader& in, registers::Value* result);
  int target = kNoTarget;  // the argument that it writes to
  bool may_be_captured = false;
};

// The three families: make tensors; reshape, cut and convert them; and everything else.
absl::Span<const Builtin> CreationBuiltins();
absl::Span<const Builtin> TransformBuiltins();
absl::Span<const Builtin> ControlBuiltins();

}  // namespace lockstep::module
