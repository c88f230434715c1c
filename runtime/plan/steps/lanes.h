// Lanes: which steps of one rank may go on at the same time. Calls are in one lane, and what ranks
// exchange, with the copies that belong to it, in the other; each lane keeps the order of the list.
// An exchange comes after the calls before it, so that little is received long before it is used,
// and goes on beside the calls after it that do not need it.
#pragma once

#include <vector>

#include "runtime/plan/program.h"
#include "runtime/plan/steps/program_steps.h"

namespace lockstep::plan {

// Gives each step its lane, and the step of the other lane that it waits for: an exchange, the last
// one before it; another, the last before it that writes to a buffer which it uses, or uses one
// which it writes to. Takes buffers that are not inside one another for different memory: those
// that are in use at the same time (InUseUntil) must not share any.
void AssignLanes(const Program& program, ProgramSteps* steps);

// For each step, the last one of the list that may go on, or end, while it is not done yet. A
// buffer that it uses is in use until then.
std::vector<int> InUseUntil(const std::vector<ProgramStep>& steps);

}  // namespace lockstep::plan
