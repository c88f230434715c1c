// What a worker asks of steps before it binds them, whoever has made them: that they stay within
// their buffers, so that memory safety does not rest on lowering.
#pragma once

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/plan/program.h"
#include "runtime/plan/steps/program_steps.h"

namespace lockstep::plan {

// kInternal names the first step of the rank that is wrong, and why: it reads or writes outside a
// buffer, or one that this rank does not have then; its counts are not those of its team and its
// buffers; its team is none of the program's; it waits for a step that does not come before it; it
// is no step of the program. Or it names a buffer that lies outside the plan's memory, or outside
// the one that it is a part of, or stands for an input that there is not. Takes time by the number
// of steps.
Status CheckSteps(const Program& program, const ProgramSteps& steps, Rank rank);

}  // namespace lockstep::plan
