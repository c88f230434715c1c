// How a call is written into a batch.
#pragma once

#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/client/argument.h"
#include "runtime/control/batch.h"

namespace lockstep::client {

// Appends a call of `function` on every rank, whose result goes to `result`. The arguments are such
// as CheckArguments() lets pass. The errors of control::BatchWriter::Add().
Status WriteCall(control::BatchWriter& writer, RegisterId function, RegisterId result,
                 absl::Span<const Argument> arguments);

}  // namespace lockstep::client
