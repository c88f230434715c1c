// What a session checks of calls and collectives, and the commands that it makes of them.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "absl/types/span.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/operations.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/client/argument.h"
#include "runtime/client/dref.h"
#include "runtime/client/session.h"
#include "runtime/client/session_core.h"
#include "schemas/control.capnp.h"

namespace lockstep::client {

// kInvalidArgument if more bytes would travel by value in one command than may.
Status CheckPayload(size_t bytes);

// kInvalidArgument for what no worker of this session could read: registers of other sessions and
// ids that do not say whose they are, tensors whose data does not fit, shapes that cannot be,
// objects that stay on their worker; nesting that is too deep.
Status CheckValue(const SessionCore& core, const Value& value);

// kInvalidArgument for arguments that cannot travel: DRefs of other sessions, what CheckValue()
// refuses, integers beyond int64, more bytes than CheckPayload() allows.
Status CheckArguments(const SessionCore& core, absl::Span<const Argument> arguments);

// A function that is called with them may write to their registers, and to all else that functions
// know: what is kept of these in other layouts is not what they hold any more
// (RegisterNames::DropRelaid). Before the call is issued, and after it.
void NoteFunctionCall(SessionCore& core, absl::Span<const Argument> arguments);

// Loads the library on every worker; see Session::LoadModule().
StatusOr<DRef> IssueLoadModule(SessionCore& core, std::string_view path);

// A function of the module, or a built-in one if `module` is null. kInvalidArgument for another
// session's module; the errors of SessionCore::IssueNaming().
StatusOr<DRef> IssueGetFunction(SessionCore& core, const DRef& module, std::string_view name);

// An uninitialised tensor; see Session::Empty().
StatusOr<DRef> IssueEmpty(SessionCore& core, const Shape& shape, DType dtype,
                          std::optional<Rank> only_rank);

struct CollectiveCall {
  OperationKind kind;
  DRef source = {};
  Reduction op = Reduction::kSum;
  Rank root = 0;
  Rank peer = 0;
  bool takes_source = true;
  bool gives_result = true;
  // Of a broadcast: the root's result may be the tensor in `source` itself, which the caller drops.
  bool gives_source = false;
  // The name under which worker-0 has lent the source, if it has.
  RegisterId loan = {};
};

// kInvalidArgument for a destination of another session, ranks that there are not, or a root that
// takes no part.
Status CheckPlaces(const SessionCore& core, const CollectiveCall& call,
                   const CollectiveOptions& options);

// Returns the register of the result: the destination of `options`, or a new one. kInvalidArgument
// for a source of another session, and what CheckPlaces() refuses; the errors of
// SessionCore::IssueOperation().
StatusOr<DRef> IssueCollective(SessionCore& core, const CollectiveCall& call,
                               const CollectiveOptions& options);

}  // namespace lockstep::client
