// One request, one answer, and the process ends: what all compilers of fragments do.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "runtime/base/status.h"
#include "schemas/fragment.capnp.h"
#include "services/compiler/sandbox.h"

namespace lockstep::compiler {

// Makes the answer, as a framed message, with nothing but memory and open descriptors.
using Answerer = std::function<StatusOr<std::string>(wire::CompileRequest::Reader)>;

// Applies the limits, enters the sandbox, reads a CompileRequest from standard input, and writes
// the answer to standard output. Whatever `answer` needs from files is open by now. Ends the
// process with 0 after an answer; returns 1 where there is none, which standard error explains.
int AnswerOneRequest(const char* program, size_t max_request_bytes, const Limits& limits,
                     const Answerer& answer);

}  // namespace lockstep::compiler
