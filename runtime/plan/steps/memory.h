// Memory planning: where in one arena buffers lie that are not all needed at the same time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace lockstep::plan {

// A buffer, and the steps during which it holds something: from the one that first writes it to the
// one that last reads it, both included. Steps are numbered in one order; those of one lane are
// done in it, those of another at the same time.
struct LiveBuffer {
  static constexpr int kNever = -1;
  static constexpr size_t kLanes = 2;
  // By the steps of one lane.
  struct Use {
    int first = kNever;
    int last = kNever;
    // A step of the other lane may be done while it is used, up to this one.
    int until = kNever;
  };

  // Of one that no step has used so far.
  static LiveBuffer Unused(int64_t size) { return {.size = size}; }
  // Where all steps are done one after the other.
  static LiveBuffer During(int64_t size, int first, int last) {
    return {.size = size, .uses = {{{first, last, last}}}};
  }
  // The step uses it, after all that have used it before.
  void UseAt(int step) { UseAt(step, 0, step); }
  void UseAt(int step, size_t lane, int until) {
    Use& use = uses[lane];
    if (use.first == kNever) use.first = step;
    use.last = step;
    use.until = std::max(use.until, until);
  }

  // Is as large as the other, and in use whenever it is.
  void Cover(const LiveBuffer& other) {
    size = std::max(size, other.size);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const Use& theirs = other.uses[lane];
      if (theirs.first == kNever) continue;
      Use& use = uses[lane];
      use.first = use.first == kNever ? theirs.first : std::min(use.first, theirs.first);
      use.last = std::max(use.last, theirs.last);
      use.until = std::max(use.until, theirs.until);
    }
  }

  bool IsUsed() const { return last() != kNever; }
  int first() const {
    int first = kNever;
    for (const Use& use : uses) {
      if (use.first != kNever && (first == kNever || use.first < first)) first = use.first;
    }
    return first;
  }
  int last() const { return std::max(uses[0].last, uses[1].last); }

  // The last step of this lane during which it is still used, by whichever lane.
  int EndIn(size_t lane) const { return std::max(uses[lane].last, uses[1 - lane].until); }
  // All that uses it is done before anything uses the other.
  bool IsBefore(const LiveBuffer& other) const {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const int theirs = other.uses[lane].first;
      if (theirs != kNever && EndIn(lane) >= theirs) return false;
    }
    return true;
  }
  bool IsWith(const LiveBuffer& other) const { return !IsBefore(other) && !other.IsBefore(*this); }

  int64_t size = 0;
  std::array<Use, kLanes> uses = {};
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // of each buffer
  int64_t total = 0;             // size of the arena
};

// Buffers that are live at the same time do not overlap; offsets are multiples of `alignment`.
// Each buffer goes to the lowest place that is free while it lives: the largest first, which is
// greedy by size (Pisarchyk and Lee, "Efficient memory management for deep neural net inference",
// 2020), and unless that meets LivenessBound(), or has taken long, in a few other orders, of which
// the best is taken. Deterministic. Takes time by the number of pairs of buffers that are live at
// the same time: of many that are all live for a few steps, little.
MemoryPlan PlanMemory(absl::Span<const LiveBuffer> buffers, int64_t alignment);
// The same, if it is not given up before: nothing, if `is_given_up` was true, which is asked now
// and then.
std::optional<MemoryPlan> PlanMemory(absl::Span<const LiveBuffer> buffers, int64_t alignment,
                                     const std::function<bool()>& is_given_up);

// What no plan can do with less: the most that is live at once, sizes rounded up to `alignment`, if
// all steps are done one after the other.
int64_t LivenessBound(absl::Span<const LiveBuffer> buffers, int64_t alignment);

}  // namespace lockstep::plan
