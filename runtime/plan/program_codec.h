// Programs on the wire.
#pragma once

#include "runtime/base/status.h"
#include "runtime/plan/program.h"
#include "schemas/plan.capnp.h"

namespace lockstep::plan {

void WriteProgram(wire::Program::Builder builder, const Program& program);

// kInvalidArgument for what is no program (Program::Make, ReadLayout), for one of another version,
// and for one with more of anything than a program may have.
StatusOr<Program> ReadProgram(wire::Program::Reader reader, int world_size);

}  // namespace lockstep::plan
