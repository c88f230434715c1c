#include "runtime/plan/memory.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep::plan {
namespace {

int64_t RoundUp(int64_t size, int64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

// Places the buffers in this order, each at the lowest place that is free while it lives.
MemoryPlan PlaceInOrder(absl::Span<const LiveBuffer> buffers, int64_t alignment,
                        const std::vector<size_t>& order) {
  MemoryPlan plan{std::vector<int64_t>(buffers.size(), 0), 0};
  std::vector<size_t> placed;  // by their offsets
  for (size_t buffer : order) {
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

int LengthOf(const LiveBuffer& buffer) { return buffer.last() - buffer.first(); }

using Comes = bool (*)(const LiveBuffer& a, const LiveBuffer& b);

// Before another buffer: the larger, the one that lives longer, or earlier.
constexpr Comes kOrders[] = {
    [](const LiveBuffer& a, const LiveBuffer& b) { return a.size > b.size; },
    [](const LiveBuffer& a, const LiveBuffer& b) {
      if (a.size != b.size) return a.size > b.size;
      return a.first() < b.first();
    },
    [](const LiveBuffer& a, const LiveBuffer& b) {
      if (LengthOf(a) != LengthOf(b)) return LengthOf(a) > LengthOf(b);
      return a.size > b.size;
    },
    [](const LiveBuffer& a, const LiveBuffer& b) {
      if (a.first() != b.first()) return a.first() < b.first();
      return a.size > b.size;
    },
    [](const LiveBuffer& a, const LiveBuffer& b) {
      if (a.last() != b.last()) return a.last() > b.last();
      return a.size > b.size;
    },
};

}  // namespace

MemoryPlan PlanMemory(absl::Span<const LiveBuffer> buffers, int64_t alignment) {
  const int64_t bound = LivenessBound(buffers, alignment);
  MemoryPlan best;
  for (const Comes comes : kOrders) {
    // Each order takes time by the square.
    constexpr size_t kManyBuffers = 4096;
    if (comes != kOrders[0] && buffers.size() > kManyBuffers) break;
    std::vector<size_t> order(buffers.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return comes(buffers[a], buffers[b]); });
    MemoryPlan plan = PlaceInOrder(buffers, alignment, order);
    if (comes == kOrders[0] || plan.total < best.total) best = std::move(plan);
    if (best.total == bound) break;
  }
  return best;
}

int64_t LivenessBound(absl::Span<const LiveBuffer> buffers, int64_t alignment) {
  std::vector<size_t> by_first(buffers.size());
  std::iota(by_first.begin(), by_first.end(), size_t{0});
  std::vector<size_t> by_last = by_first;
  std::sort(by_first.begin(), by_first.end(),
            [&](size_t a, size_t b) { return buffers[a].first() < buffers[b].first(); });
  std::sort(by_last.begin(), by_last.end(),
            [&](size_t a, size_t b) { return buffers[a].last() < buffers[b].last(); });
  int64_t most = 0;
  int64_t live = 0;
  auto ended = by_last.begin();
  for (const size_t buffer : by_first) {
    for (; buffers[*ended].last() < buffers[buffer].first(); ++ended) {
      live -= RoundUp(buffers[*ended].size, alignment);
    }
    live += RoundUp(buffers[buffer].size, alignment);
    most = std::max(most, live);
  }
  return most;
}

}  // namespace lockstep::plan
