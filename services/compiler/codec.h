// The compiler's request and answer as schemas/fragment.capnp has them.
#pragma once

#include <capnp/serialize.h>

#include <string>

#include "runtime/base/status.h"
#include "runtime/fragment/mlir/compiler.h"
#include "schemas/fragment.capnp.h"

namespace lockstep::compiler {

// A request and the target that it asks for. `request` borrows from the message.
struct DecodedRequest {
  fragment::Request request;
  fragment::Target target;
};

// kInvalidArgument: no request, or one that asks for a target that there is not. `host` is this
// machine.
StatusOr<DecodedRequest> Decode(wire::CompileRequest::Reader message, const fragment::Target& host);

// The answer as a framed message.
std::string Encode(const fragment::Answer& answer, const fragment::Target& target);

}  // namespace lockstep::compiler
