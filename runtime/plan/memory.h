// Memory planning: where in one arena buffers lie that are not all needed at the same time.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace lockstep::plan {

// A buffer that holds something from the step that first writes it to the step that last reads it,
// both included.
struct LiveBuffer {
  int64_t size = 0;
  int first = 0;
  int last = 0;

  // Of one that no step has used so far.
  static constexpr int kNever = -1;
  static LiveBuffer Unused(int64_t size) { return {size, kNever, kNever}; }
  bool IsUsed() const { return first != kNever; }
  // The step uses it, after all that have used it before.
  void UseAt(int step) {
    if (!IsUsed()) first = step;
    last = step;
  }

  bool IsWith(const LiveBuffer& other) const { return first <= other.last && other.first <= last; }
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // of each buffer
  int64_t total = 0;             // size of the arena
};

// Buffers that are live at the same time do not overlap; offsets are multiples of `alignment`.
// Each buffer goes to the lowest place that is free while it lives: the largest first, which is
// greedy by size (Pisarchyk and Lee, "Efficient memory management for deep neural net inference",
// 2020), and unless that meets LivenessBound(), or there are thousands of buffers, in a few other
// orders, of which the best is taken. Deterministic. Takes time by the square of the number of
// buffers.
MemoryPlan PlanMemory(absl::Span<const LiveBuffer> buffers, int64_t alignment);

// What no plan can do with less: the most that is live at once, sizes rounded up to `alignment`.
int64_t LivenessBound(absl::Span<const LiveBuffer> buffers, int64_t alignment);

}  // namespace lockstep::plan
