// What is checked of an operation's arguments before any other rank is told about it.
//
// All return kInvalidArgument with what was expected and what came.
#pragma once

#include <algorithm>

#include "absl/types/span.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/operation.h"

namespace lockstep::collective {

Status CheckRoot(Rank root, int size);

// `peer` is another rank of the group.
Status CheckPeer(Rank peer, Rank rank, int size);

// The reduction is defined for the dtype: not for fp8, and avg not for bool. (Of bool, sum and max
// are "or", prod and min are "and".)
Status CheckReduction(ReduceOp op, DType dtype);

// `counts` has one entry per rank, none negative.
Status CheckCounts(Counts counts, int size);

// The buffer called `name` has `count` elements of `dtype`, and memory if there are any.
Status CheckBuffer(const char* name, ConstBuffer buffer, size_t count, DType dtype);

// `recv` is exactly `in_place` or shares no byte with `send`.
Status CheckOverlap(ConstBuffer send, ConstBuffer recv, const void* in_place);

// All of these that the operation's kind asks for: of the ranks and counts that it names, and of
// its buffers on this rank, once those are right. Not CheckReduction(), which is the backend's.
Status CheckGroup(const Operation& operation, Rank rank, int size);
Status CheckBuffers(const Operation& operation, Rank rank);

// `group_ranks` names ranks of a group of `size`, each once, `rank` among them.
Status CheckSplit(absl::Span<const Rank> group_ranks, Rank rank, int size);

inline int64_t SumOf(Counts counts) {
  int64_t sum = 0;
  for (int64_t count : counts) sum += count;
  return sum;
}
// All parts are equally large.
inline bool AreEven(Counts counts) {
  return std::all_of(counts.begin(), counts.end(),
                     [&](int64_t count) { return count == counts.front(); });
}
// Elements before `rank`'s part.
inline int64_t OffsetOf(Counts counts, Rank rank) {
  return SumOf(counts.first(static_cast<size_t>(rank)));
}

}  // namespace lockstep::collective
