// Lowering a program: what all of its ranks do, the same on each of them. No data, no device.
//
// Passes, in this order, each of which says what it did:
//   - calls that are to be in chunks are, and what ranks exchange for them (chunks.h);
//   - a view, a copy and a reshard to the layout that the value has are nothing, where no one could
//     tell: the result is the same buffer;
//   - two reshards in a row become one, where that costs less;
//   - what no one reads is not made;
//   - what ranks exchange begins before the call that precedes it (early_exchanges.h);
//   - small exchanges that follow each other become one (grouped_exchanges.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/plan/lowering/reshard.h"
#include "runtime/plan/lowering/topology.h"
#include "runtime/plan/lowering/traffic.h"
#include "runtime/plan/program.h"

namespace lockstep::plan {

struct LoweredOp {
  size_t op = 0;  // of Program::ops()
  // What leads from `source` to `result`, perhaps from an earlier value than the program says: of a
  // reshard, a collective, or a copy. Null: a call, or a ChunkOp.
  std::shared_ptr<const Reshard> reshard;
  ValueId source = kNoValue;
  ValueId result = kNoValue;
  // Of a ChunkOp: the chunk may lie in the tile that it is of.
  bool in_place = false;
  // Its collectives are done together with those of the operation before it.
  bool with_previous = false;

  // Ranks meet in it.
  bool is_exchange() const { return reshard != nullptr && !reshard->teams.empty(); }
};

struct LoweredProgram {
  // With its calls in chunks.
  std::shared_ptr<const Program> program;
  std::vector<LoweredOp> ops;
  // For each value: the one in whose buffer it lies; mostly itself.
  std::vector<ValueId> lies_in;
  std::vector<std::string> notes;  // what the passes did: "train.cc:12: ..."
  double cost_us = 0;              // of the reshards, by the cost model

  ValueId HomeOf(ValueId id) const { return lies_in[static_cast<size_t>(id)]; }
};

// Each of them takes time: programs that repeat themselves have a few.
constexpr size_t kMaxDifferentReshards = 256;

// Reshard::effort of all pairs together: a few seconds' work, which other sessions wait for. An
// all-to-all of a thousand ranks takes a quarter of it, the pairs of a model on as many less than a
// fiftieth.
constexpr int64_t kMaxLoweringEffort = int64_t{1} << 23;

// Deterministic: what ranks lower by themselves fits together. The errors of LowerReshard(), with
// the line; kResourceExhausted: more than kMaxDifferentReshards pairs of layouts, or more effort
// than `most_effort`; kAborted: it is asked between two reshards whether to go on, and
// `is_given_up` was true.
StatusOr<LoweredProgram> LowerProgram(std::shared_ptr<const Program> program,
                                      const Topology& topology, const CostModel& costs,
                                      const std::function<bool()>& is_given_up = nullptr,
                                      int64_t most_effort = kMaxLoweringEffort);

// A program of one reshard, which is lowered already: value 0 is its input, 1 its output.
LoweredProgram ProgramOf(Reshard reshard);

}  // namespace lockstep::plan
