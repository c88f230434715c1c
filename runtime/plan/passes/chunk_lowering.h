// Calls in chunks, when a program is lowered: that they round as all at once would, and what that
// gains by the cost model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/plan/lowering/topology.h"
#include "runtime/plan/lowering/traffic.h"
#include "runtime/plan/program.h"

namespace lockstep::plan {

struct LoweredChunks {
  std::shared_ptr<const Program> program;
  std::vector<std::string> notes;  // "train.cc:12: in 4 chunks: ..."
  int64_t effort = 0;              // Reshard::effort of the pairs of layouts that were looked at
};

// The program with its calls in chunks (ChunkCalls()); the same one, if it has none. A reshard that
// combines partial values of floating point is done in chunks only if each chunk is combined by the
// same moves as all at once, so that the result has the same bits. Deterministic.
//
// The errors of ChunkCalls() and LowerReshard(); kResourceExhausted: more than `most_effort`;
// kAborted: `is_given_up`, which is asked between two pairs, was true.
StatusOr<LoweredChunks> LowerChunks(std::shared_ptr<const Program> program,
                                    const Topology& topology, const CostModel& costs,
                                    const std::function<bool()>& is_given_up, int64_t most_effort);

}  // namespace lockstep::plan
