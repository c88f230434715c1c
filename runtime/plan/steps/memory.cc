#include "runtime/plan/steps/memory.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "runtime/plan/steps/live_index.h"

namespace lockstep::plan {
namespace {

// After so many looks at buffers, no further order is tried. A look takes some nanoseconds.
constexpr size_t kManyLooks = size_t{1} << 24;
constexpr size_t kLooksBetweenQuestions = size_t{1} << 16;

int64_t RoundUp(int64_t size, int64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

// Places buffers one by one, each at the lowest place that is free while it lives.
class Placing {
 public:
  Placing(absl::Span<const LiveBuffer> buffers, int64_t alignment)
      : buffers_(buffers),
        alignment_(alignment),
        index_(buffers),
        plan_{std::vector<int64_t>(buffers.size(), 0), 0} {}

  // Returns at how many it has looked for that.
  size_t Place(size_t buffer) {
    const bool is_with_few = index_.FindWith(buffer, placed_.size() / kMany, &with_);
    if (is_with_few) {
      std::sort(with_.begin(), with_.end(),
                [&](uint32_t a, uint32_t b) { return plan_.offsets[a] < plan_.offsets[b]; });
    } else {
      with_.clear();
      std::copy_if(placed_.begin(), placed_.end(), std::back_inserter(with_),
                   [&](uint32_t other) { return buffers_[buffer].IsWith(buffers_[other]); });
    }
    const int64_t size = SizeOf(buffer);
    int64_t offset = 0;
    for (const uint32_t other : with_) {
      if (offset + size <= plan_.offsets[other]) break;
      offset = std::max(offset, plan_.offsets[other] + SizeOf(other));
    }
    plan_.offsets[buffer] = offset;
    plan_.total = std::max(plan_.total, offset + size);
    const size_t looks = is_with_few ? with_.size() : placed_.size();
    index_.Add(buffer);
    placed_.insert(
        std::upper_bound(placed_.begin(), placed_.end(), offset,
                         [&](int64_t at, uint32_t other) { return at < plan_.offsets[other]; }),
        static_cast<uint32_t>(buffer));
    return looks + 1;
  }

  MemoryPlan TakePlan() { return std::move(plan_); }

 private:
  // To look at all that are placed, which are in order, is faster than to find this part of them
  // and sort it.
  static constexpr size_t kMany = 16;

  int64_t SizeOf(size_t buffer) const { return RoundUp(buffers_[buffer].size, alignment_); }

  absl::Span<const LiveBuffer> buffers_;
  const int64_t alignment_;
  LiveIndex index_;               // of those that are placed
  std::vector<uint32_t> placed_;  // by their offsets
  std::vector<uint32_t> with_;
  MemoryPlan plan_;
};

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
  return *PlanMemory(buffers, alignment, [] { return false; });
}

std::optional<MemoryPlan> PlanMemory(absl::Span<const LiveBuffer> buffers, int64_t alignment,
                                     const std::function<bool()>& is_given_up) {
  const int64_t bound = LivenessBound(buffers, alignment);
  MemoryPlan best;
  size_t looks = 0;
  size_t next_question = 0;  // after so many looks
  for (const Comes comes : kOrders) {
    if (looks > kManyLooks) break;
    std::vector<size_t> order(buffers.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return comes(buffers[a], buffers[b]); });
    Placing placing(buffers, alignment);
    for (const size_t buffer : order) {
      if (looks >= next_question) {
        if (is_given_up()) return std::nullopt;
        next_question = looks + kLooksBetweenQuestions;
      }
      looks += placing.Place(buffer);
    }
    MemoryPlan plan = placing.TakePlan();
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
