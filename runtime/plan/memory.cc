#include "runtime/plan/memory.h"

#include <algorithm>
#include <numeric>

namespace lockstep::plan {
namespace {

int64_t RoundUp(int64_t size, int64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

}  // namespace

MemoryPlan PlanMemory(absl::Span<const LiveBuffer> buffers, int64_t alignment) {
  std::vector<size_t> by_size(buffers.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return buffers[a].size > buffers[b].size; });
  MemoryPlan plan{std::vector<int64_t>(buffers.size(), 0), 0};
  std::vector<size_t> placed;  // by their offsets
  for (size_t buffer : by_size) {
    const int64_t size = RoundUp(buffers[buffer].size, alignment);
    int64_t offset = 0;
    for (size_t other : placed) {
      if (!buffers[buffer].IsWith(buffers[other])) continue;
      if (offset + size <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + RoundUp(buffers[other].size, alignment));
    }
    plan.offsets[buffer] = offset;
    plan.total = std::max(plan.total, offset + size);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [&](int64_t at, size_t other) { return at < plan.offsets[other]; }),
        buffer);
  }
  return plan;
}

int64_t LivenessBound(absl::Span<const LiveBuffer> buffers, int64_t alignment) {
  int64_t most = 0;
  for (const LiveBuffer& at : buffers) {
    int64_t live = 0;
    for (const LiveBuffer& other : buffers) {
      if (other.first <= at.first && at.first <= other.last) {
        live += RoundUp(other.size, alignment);
      }
    }
    most = std::max(most, live);
  }
  return most;
}

}  // namespace lockstep::plan
