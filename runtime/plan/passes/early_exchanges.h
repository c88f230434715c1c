// A pass over a lowered program: what ranks exchange begins before the call that precedes it.
#pragma once

#include "runtime/plan/passes/program_lowering.h"

namespace lockstep::plan {

// Moves each operation in which ranks meet ahead of the call right before it, if neither uses what
// the other makes: the two lanes of a rank (lanes.h), or the two streams of its GPU, then work at
// the same time. Ahead of one call, not of all: what is received early takes memory until it is
// used. The same on all ranks.
void BeginExchangesEarly(LoweredProgram* lowered);

}  // namespace lockstep::plan
