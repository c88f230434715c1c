// What a run of a fragment did with its data: parts, layouts, and what had to move.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/shape.h"
#include "runtime/fragment/load.h"
#include "tools/cli/fragment/execution.h"
#include "tools/cli/value_text.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {

// Ranks whose parts have the same shape.
struct SharedPart {
  std::vector<Rank> ranks;
  Shape shape;
  bool operator==(const SharedPart&) const = default;
};
// By shape, in the order of the first rank that has it.
std::vector<SharedPart> PartsOf(const plan::Layout& layout);

// Bytes that have to move at least, for one tensor. Worker-0 is where the client's data go in and
// out.
struct Movement {
  uint64_t client = 0;   // between the client and worker-0; of what each worker keeps, any worker
  uint64_t workers = 0;  // between workers
};
// Of an argument that is placed in this layout.
Movement PlacingMoves(const plan::Layout& layout);
// Of a result that is collected.
Movement CollectingMoves(const ExecutedResult& result);

// "float64[1797, 10] shard(0) on 0-3"
std::string LayoutText(const plan::Layout& layout);

// "compiled by rank 0 in 71 ms; found on disk by 1-3"
std::string LoadsText(const std::vector<fragment::Load>& loads);

void Explain(std::ostream& out, const text::Style& style, const Execution& execution);
Json ExplanationToJson(const Execution& execution);

}  // namespace lockstep::cli
