#include "runtime/collective/shm/reductions.h"

#include <algorithm>

#include "runtime/base/bulk_memory.h"
#include "runtime/collective/checks.h"
#include "runtime/collective/groups.h"
#include "runtime/collective/kernels/kernels.h"

namespace lockstep::collective::shm {
namespace {

// Streaming stores pay where the output is not in a cache already, as an input would be.
Stores ChooseStores(size_t touched_bytes, absl::Span<void* const> destinations,
                    absl::Span<const void* const> sources) {
  if (!ExceedsCaches(touched_bytes)) return Stores::kCached;
  for (const void* destination : destinations) {
    for (const void* source : sources) {
      if (source == destination) return Stores::kCached;
    }
  }
  return Stores::kStream;
}

}  // namespace

Reductions::Reductions(Team& team)
    : team_(team),
      sources_(static_cast<size_t>(team.size())),
      destinations_(static_cast<size_t>(team.size())) {}

void Reductions::CombineWindow(const Exchange& x, const Window& window, DType dtype, ReduceOp op,
                               absl::Span<const int> ranks) {
  const size_t element_bytes = SizeOf(dtype);
  const size_t count = window.end - window.begin;
  const Slice slice = x.touches() ? SliceOf(count, element_bytes, rank(), size()) : Slice{0, count};
  if (slice.count == 0) return;
  for (int r = 0; r < size(); ++r) {
    sources_[static_cast<size_t>(r)] = x.Source(r, 0, 0, window) + slice.begin * element_bytes;
  }
  const auto num = static_cast<int>(ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    destinations_[i] = x.Destination(ranks[i], 0, window) + slice.begin * element_bytes;
  }
  const size_t touched_bytes = count * element_bytes * static_cast<size_t>(size() + num);
  const Stores stores = ChooseStores(
      touched_bytes, absl::MakeConstSpan(destinations_.data(), static_cast<size_t>(num)), sources_);
  kernels::CombineFor(op, dtype)(destinations_.data(), num, sources_.data(), size(), slice.count,
                                 stores);
}

Status Reductions::AllReduce(ConstBuffer send, Buffer recv, ReduceOp op, Deadline deadline) {
  const auto count = static_cast<int64_t>(send.count);
  Exchange x(team_, Call{.kind = Kind::kAllReduce, .dtype = send.dtype, .op = op}, send,
             Counts(&count, 1), recv);
  x.Compare(send.count);
  if (send.size_bytes() > kFlatBytes) x.OfferRecvAnywhere();
  x.CollectSlices();
  LOCKSTEP_RETURN_IF_ERROR(x.Begin(deadline));
  receivers_.clear();
  for (int r = 0; r < size(); ++r) {
    const bool is_written = x.touches() && !x.StagesRecv(r);
    if (r == rank() || is_written) receivers_.push_back(r);
  }
  return x.ForEachWindow(
      send.count,
      [&](const Window& window) { CombineWindow(x, window, send.dtype, op, receivers_); },
      deadline);
}

Status Reductions::Reduce(ConstBuffer send, Buffer recv, ReduceOp op, Rank root,
                          Deadline deadline) {
  const auto count = static_cast<int64_t>(send.count);
  Exchange x(team_,
             Call{.kind = Kind::kReduce,
                  .dtype = send.dtype,
                  .op = op,
                  .root = static_cast<uint16_t>(root)},
             send, Counts(&count, 1), recv);
  x.Compare(send.count);
  if (rank() == root && send.size_bytes() > kFlatBytes) x.OfferRecvAnywhere();
  LOCKSTEP_RETURN_IF_ERROR(x.Begin(deadline));
  return x.ForEachWindow(
      send.count,
      [&](const Window& window) {
        if (!x.touches() && rank() != root) return;
        CombineWindow(x, window, send.dtype, op, {root});
      },
      deadline);
}

Status Reductions::ReduceScatter(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                                 Deadline deadline) {
  const auto mine = static_cast<size_t>(rank());
  const auto offset = static_cast<size_t>(OffsetOf(counts, rank()));
  Exchange x(team_, Call{.kind = Kind::kReduceScatter, .dtype = send.dtype, .op = op}, send, counts,
             recv);
  x.Compare(counts);
  LOCKSTEP_RETURN_IF_ERROR(x.Begin(deadline));
  const size_t touched_bytes = send.size_bytes() * static_cast<size_t>(size() + 1);
  return x.ForEachWindow(
      static_cast<size_t>(*std::max_element(counts.begin(), counts.end())),
      [&](const Window& window) {
        const size_t count = window.CountOf(counts[mine]);
        if (count == 0) return;
        for (int r = 0; r < size(); ++r) {
          sources_[static_cast<size_t>(r)] = x.Source(r, mine, offset, window);
        }
        void* destination = x.Destination(rank(), 0, window);
        kernels::CombineFor(op, send.dtype)(
            &destination, 1, sources_.data(), size(), count,
            ChooseStores(touched_bytes, absl::MakeConstSpan(&destination, 1), sources_));
      },
      deadline);
}

}  // namespace lockstep::collective::shm
