#include "runtime/plan/steps/live_index.h"

#include <algorithm>

namespace lockstep::plan {

LiveIndex::Tree::Tree(absl::Span<const LiveBuffer> buffers, size_t begin_lane)
    : leaf_of_(buffers.size(), 0) {
  const auto begin_of = [&](size_t buffer) { return buffers[buffer].uses[begin_lane].first; };
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (begin_of(i) != LiveBuffer::kNever) buffers_.push_back(static_cast<uint32_t>(i));
  }
  std::stable_sort(buffers_.begin(), buffers_.end(),
                   [&](uint32_t a, uint32_t b) { return begin_of(a) < begin_of(b); });
  for (size_t leaf = 0; leaf < buffers_.size(); ++leaf) {
    begins_.push_back(begin_of(buffers_[leaf]));
    leaf_of_[buffers_[leaf]] = static_cast<uint32_t>(leaf);
  }
  while (num_leaves_ < buffers_.size()) num_leaves_ *= 2;
  ends_.assign(2 * num_leaves_, LiveBuffer::kNever);
}

void LiveIndex::Tree::Add(size_t buffer, int end) {
  for (size_t node = num_leaves_ + leaf_of_[buffer]; node > 0; node /= 2) {
    ends_[node] = std::max(ends_[node], end);
  }
}

template <typename Visit>
bool LiveIndex::Tree::ForEach(int first, int last, Visit&& visit) {
  const auto beyond = std::upper_bound(begins_.begin(), begins_.end(), last);
  const auto num_begun = static_cast<size_t>(beyond - begins_.begin());
  // Of nodes of one depth, those of lower numbers have the earlier leaves.
  to_visit_.assign(1, 1);
  while (!to_visit_.empty()) {
    const size_t node = to_visit_.back();
    to_visit_.pop_back();
    if (ends_[node] < first) continue;
    size_t first_leaf = node;
    while (first_leaf < num_leaves_) first_leaf *= 2;
    if (first_leaf - num_leaves_ >= num_begun) continue;
    if (node < num_leaves_) {
      to_visit_.push_back(2 * node);
      to_visit_.push_back(2 * node + 1);
    } else if (!visit(buffers_[node - num_leaves_])) {
      return false;
    }
  }
  return true;
}

LiveIndex::LiveIndex(absl::Span<const LiveBuffer> buffers)
    : buffers_(buffers), found_by_(buffers.size(), 0) {
  for (size_t begin = 0; begin < LiveBuffer::kLanes; ++begin) {
    for (size_t end = 0; end < LiveBuffer::kLanes; ++end) trees_.emplace_back(buffers, begin);
  }
}

void LiveIndex::Add(size_t buffer) {
  for (size_t begin = 0; begin < LiveBuffer::kLanes; ++begin) {
    if (buffers_[buffer].uses[begin].first == LiveBuffer::kNever) continue;
    for (size_t end = 0; end < LiveBuffer::kLanes; ++end) {
      trees_[begin * LiveBuffer::kLanes + end].Add(buffer, buffers_[buffer].EndIn(end));
    }
  }
}

// Two are live together unless all of one is done, in each lane that uses the other, before that
// begins there. So each has begun, in some lane, before the other one is done there.
bool LiveIndex::FindWith(size_t buffer, size_t most, std::vector<uint32_t>* found) {
  found->clear();
  ++question_;
  const LiveBuffer& one = buffers_[buffer];
  for (size_t begin = 0; begin < LiveBuffer::kLanes; ++begin) {
    for (size_t end = 0; end < LiveBuffer::kLanes; ++end) {
      if (one.uses[end].first == LiveBuffer::kNever) continue;
      const bool has_all = trees_[begin * LiveBuffer::kLanes + end].ForEach(
          one.uses[end].first, one.EndIn(begin), [&](uint32_t other) {
            if (found_by_[other] == question_) return true;
            found_by_[other] = question_;
            found->push_back(other);
            return found->size() <= most;
          });
      if (!has_all) return false;
    }
  }
  return true;
}

}  // namespace lockstep::plan
