// Steps: what one rank does to execute a plan, one after the other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/operations.h"
#include "runtime/base/reduction.h"
#include "runtime/plan/box.h"

namespace lockstep::plan {

// `count` elements of buffer `buffer`, from `offset` on.
struct Span {
  int buffer = 0;
  int64_t offset = 0;
  int64_t count = 0;
  bool operator==(const Span&) const = default;
};

// Copies elements [first, first + count) of a box, in row-major order, from its window in one
// buffer to that in another.
struct CopyStep {
  int from_buffer = 0;
  int to_buffer = 0;
  Window from;
  Window to;
  Shape extents;  // of the box
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const CopyStep&) const = default;
};

// Writes what changes no result of a reduction: 1 for a product, else 0.
struct FillStep {
  Span to;
  Reduction op = Reduction::kSum;
  bool operator==(const FillStep&) const = default;
};

// kAllReduce, kAllGather, kReduceScatter or kAllToAll among `team`, in its order.
struct CollectiveStep {
  int number = 0;  // among those of all ranks: Reshard::teams
  OperationKind kind = OperationKind::kAllReduce;
  std::vector<Rank> team;
  Span send;
  Span recv;
  Reduction op = Reduction::kSum;
  std::vector<int64_t> counts;       // elements by member; of an all-to-all: those that are sent
  std::vector<int64_t> recv_counts;  // of an all-to-all
  bool operator==(const CollectiveStep&) const = default;
};

// Calls visit(buffer) for those that the step reads or writes.
template <typename Visit>
void ForEachBuffer(const CopyStep& copy, Visit&& visit) {
  visit(copy.from_buffer);
  visit(copy.to_buffer);
}
template <typename Visit>
void ForEachBuffer(const FillStep& fill, Visit&& visit) {
  visit(fill.to.buffer);
}
template <typename Visit>
void ForEachBuffer(const CollectiveStep& collective, Visit&& visit) {
  visit(collective.send.buffer);
  visit(collective.recv.buffer);
}

using Step = std::variant<CopyStep, FillStep, CollectiveStep>;

// What one rank does in one reshard. Buffers hold elements of one dtype; 0 is the input and 1 the
// output.
struct RankSteps {
  std::vector<int64_t> buffer_elements;
  std::vector<Step> steps;
};

// Calls run(from, to, count) for stretches of elements that lie in a row on both sides: offsets in
// the two buffers, and how many.
template <typename Run>
void ForEachRun(const CopyStep& copy, Run&& run) {
  if (copy.count == 0) return;
  const int ndim = copy.extents.ndim();
  // The dimensions from `inner` on are one row.
  int inner = ndim;
  int64_t row = 1;
  while (inner > 0 && (copy.extents[inner - 1] == 1 || (copy.from.strides[inner - 1] == row &&
                                                        copy.to.strides[inner - 1] == row))) {
    row *= copy.extents[--inner];
  }
  absl::InlinedVector<int64_t, 8> at(static_cast<size_t>(inner), 0);
  int64_t number = copy.first / row;
  for (int d = inner - 1; d >= 0; --d) {
    at[static_cast<size_t>(d)] = number % copy.extents[d];
    number /= copy.extents[d];
  }
  int64_t skip = copy.first % row;
  for (int64_t left = copy.count; left > 0;) {
    int64_t from = copy.from.offset + skip;
    int64_t to = copy.to.offset + skip;
    for (int d = 0; d < inner; ++d) {
      from += at[static_cast<size_t>(d)] * copy.from.strides[d];
      to += at[static_cast<size_t>(d)] * copy.to.strides[d];
    }
    const int64_t some = std::min(left, row - skip);
    run(from, to, some);
    left -= some;
    skip = 0;
    for (int d = inner - 1; d >= 0; --d) {
      if (++at[static_cast<size_t>(d)] < copy.extents[d]) break;
      at[static_cast<size_t>(d)] = 0;
    }
  }
}

// Rows of `row` elements each, which begin a pitch apart on either side; all in elements.
struct RowBlock {
  int64_t from = 0;  // offsets of the first row in the two buffers
  int64_t to = 0;
  int64_t row = 0;
  int64_t rows = 0;
  int64_t from_pitch = 0;
  int64_t to_pitch = 0;
};

// The same by blocks: runs of one length that follow each other at one distance are one.
template <typename Copy>
void ForEachBlock(const CopyStep& step, Copy&& copy) {
  RowBlock block;
  ForEachRun(step, [&](int64_t from, int64_t to, int64_t count) {
    const int64_t from_pitch = from - (block.from + (block.rows - 1) * block.from_pitch);
    const int64_t to_pitch = to - (block.to + (block.rows - 1) * block.to_pitch);
    const bool is_next =
        block.rows > 0 && count == block.row &&
        (block.rows == 1 ? from_pitch >= count && to_pitch >= count
                         : from_pitch == block.from_pitch && to_pitch == block.to_pitch);
    if (is_next) {
      ++block.rows;
      block.from_pitch = from_pitch;
      block.to_pitch = to_pitch;
      return;
    }
    if (block.rows > 0) copy(block);
    block = {from, to, count, 1, count, count};
  });
  if (block.rows > 0) copy(block);
}

}  // namespace lockstep::plan
