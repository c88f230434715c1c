// Programs as text, for people and for comparing two of them: one line for each layout, input,
// operation and output. What is equal is written equally; an operation's line in the source stands
// at the end of its line, from one column on.
//
//     L0 = float32[512, 256] on x=4 {0-3}: shard(0)
//     L1 = float32[512, 256] on x=4 {0-3}: replicate
//
//     input x: L0
//     whole: L1 = reshard x                             # layers.yaml:19
//     active: L1 = make
//     relu(whole, write active)                         # layers.yaml:21
//     total: L1 = allreduce active along x, sum         # layers.yaml:22
//     output total
//
// Threads: any.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "runtime/plan/passes/program_lowering.h"
#include "runtime/plan/program.h"

namespace lockstep::plan {

// `names`: of the values, by number; those of inputs and outputs are known without. A value without
// a name is "%7", by its number; where several have one name, it is "y%7". Values that nothing uses
// are not shown.
std::string ToText(const Program& program, absl::Span<const std::string> names = {});

// What the passes have made of it: one line for each operation that is left, how it moves what it
// moves, and for each value that lies in the buffer of another.
//
//     whole = allgather along x of x                    # layers.yaml:19
//     same lies in whole
std::string ToText(const LoweredProgram& lowered, absl::Span<const std::string> names = {});

}  // namespace lockstep::plan
