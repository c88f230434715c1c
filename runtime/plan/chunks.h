// A pass over a program: calls in chunks, so that what ranks exchange for one chunk goes on beside
// the call for another.
//
//     whole = reshard x            x.0, x.1 = chunks of x
//     y = call layer(whole)   to   whole.0 = reshard x.0;  whole.1 = reshard x.1
//     z = reshard y                y.0 = call layer(whole.0);  z.0 = reshard y.0
//                                  y.1 = call layer(whole.1);  z.1 = reshard y.1
//                                  z = chunks z.0, z.1
//
// The chunks are those of a Cut: part j of what each rank has. Calls in as many chunks, each of
// which reads what the one before returns, are a chain: chunks go through all of it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/program.h"

namespace lockstep::plan {

// A reshard that is done chunk by chunk.
struct ReshardInChunks {
  Layout from;
  Layout to;
  // Of each chunk.
  std::vector<Layout> chunks_from;
  std::vector<Layout> chunks_to;
};

// What became of a chain of calls.
struct ChunkedCalls {
  std::string where;  // of its last call
  int count = 1;
  std::optional<ReshardInChunks> before;
  std::optional<ReshardInChunks> after;
  std::vector<std::string> notes;  // what else there is to say
};

struct ChunkedProgram {
  Program program;  // the values that there were keep their numbers
  std::vector<ChunkedCalls> calls;
};

// Whether the chunks of a reshard make of each element what all at once makes of it.
using IsSameInChunks = std::function<StatusOr<bool>(const ReshardInChunks&)>;

// kInvalidArgument names the line of a call that cannot be done in chunks, and says why: it writes
// to an argument, or returns nothing; the rows of its argument and of its result are not the same
// ones on each rank; neither what it reads nor what it returns is resharded for it alone; a rank
// would have no equal chunks of it. Where `is_same` says no, the reshard is done at once. What
// `is_same` fails with.
StatusOr<ChunkedProgram> ChunkCalls(const Program& program,
                                    const IsSameInChunks& is_same = nullptr);

}  // namespace lockstep::plan
