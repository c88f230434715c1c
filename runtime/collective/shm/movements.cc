#include "runtime/collective/shm/movements.h"

#include <algorithm>

#include "runtime/base/bulk_memory.h"
#include "runtime/collective/checks.h"
#include "runtime/collective/groups.h"
#include "runtime/collective/shm/exchange.h"

namespace lockstep::collective::shm {
namespace {

Stores StoresFor(size_t touched_bytes) {
  return ExceedsCaches(touched_bytes) ? Stores::kStream : Stores::kCached;
}

void Copy(void* to, const void* from, size_t size_bytes, Stores stores) {
  if (to != from) FastCopy(to, from, size_bytes, stores);
}

// In pieces, so that the source is still in the first-level cache for the second destination.
void CopyToAll(absl::Span<void* const> destinations, const std::byte* from, size_t size_bytes,
               Stores stores) {
  constexpr size_t kPieceBytes = 16 << 10;
  for (size_t at = 0; at < size_bytes; at += kPieceBytes) {
    for (void* to : destinations) {
      FastCopy(static_cast<std::byte*>(to) + at, from + at, std::min(kPieceBytes, size_bytes - at),
               stores);
    }
  }
}

size_t LongestOf(Counts counts) {
  return static_cast<size_t>(*std::max_element(counts.begin(), counts.end()));
}

// Where `rank`'s part begins in `buffer`.
const void* PartOf(ConstBuffer buffer, Counts counts, Rank rank) {
  return static_cast<const std::byte*>(buffer.data) +
         static_cast<size_t>(OffsetOf(counts, rank)) * SizeOf(buffer.dtype);
}

// What exceeds the caches is better read once for all, each slice by another rank. What does not is
// better copied by whom it is for, who finds it in a cache then; unless it is much, and of two
// ranks one would only wait for the other (`bench --only collectives`).
size_t LeastSharedBytes(int ranks) {
  constexpr size_t kOfTwoRanks = size_t{4} << 20;
  const size_t exceeds_caches = LeastThatExceedsCaches() / static_cast<size_t>(ranks);
  return ranks == 2 ? std::min(kOfTwoRanks, exceeds_caches) : exceeds_caches;
}

}  // namespace

template <typename Do>
void Movements::ForEachPart(Counts counts, Order order, Do&& what) const {
  const auto own = static_cast<size_t>(OffsetOf(counts, rank()));
  what(rank(), own, counts[static_cast<size_t>(rank())]);
  const int first = order == Order::kFromOwnOn ? rank() : 0;
  size_t offset = order == Order::kFromOwnOn ? own : 0;
  for (int i = 0; i < size(); ++i) {
    const int r = (first + i) % size();
    if (r == 0) offset = 0;
    const int64_t count = counts[static_cast<size_t>(r)];
    if (r != rank()) what(r, offset, count);
    offset += static_cast<size_t>(count);
  }
}

Movements::Movements(Team& team) : Movements(team, LeastSharedBytes(team.size())) {}

Movements::Movements(Team& team, size_t least_shared_bytes)
    : team_(team),
      least_shared_bytes_(least_shared_bytes),
      destinations_(static_cast<size_t>(team.size())) {}

Status Movements::Broadcast(ConstBuffer send, Buffer recv, Rank root, Deadline deadline) {
  const auto count = static_cast<int64_t>(recv.count);
  Exchange x(
      team_,
      Call{.kind = Kind::kBroadcast, .dtype = recv.dtype, .root = static_cast<uint16_t>(root)},
      send, rank() == root ? Counts(&count, 1) : Counts(), recv);
  x.Compare(recv.count);
  const size_t element_bytes = SizeOf(recv.dtype);
  const Stores stores = StoresFor(recv.size_bytes() * static_cast<size_t>(size()));
  if (recv.size_bytes() >= least_shared_bytes_) x.OfferRecv();
  LOCKSTEP_RETURN_IF_ERROR(x.Begin(deadline));

  const auto pull = [&](const Window& window) {
    Copy(x.Destination(rank(), 0, window), x.Source(root, 0, 0, window),
         (window.end - window.begin) * element_bytes, stores);
  };
  const auto share = [&](const Window& window) {
    const Slice slice = SliceOf(window.end - window.begin, element_bytes, rank(), size());
    const std::byte* from = x.Source(root, 0, 0, window);
    size_t num = 0;
    for (int r = 0; r < size(); ++r) {
      std::byte* to = x.Destination(r, 0, window);
      if (to != from) destinations_[num++] = to + slice.begin * element_bytes;
    }
    CopyToAll(absl::MakeConstSpan(destinations_).first(num), from + slice.begin * element_bytes,
              slice.count * element_bytes, stores);
  };
  // Not by what this rank would do alone: all do the same.
  const bool shares = x.touches() && x.all_offered();
  return x.ForEachWindow(
      recv.count,
      [&](const Window& window) {
        if (shares) {
          share(window);
        } else if (window.end > window.begin) {
          pull(window);
        }
      },
      deadline);
}

Status Movements::AllGather(ConstBuffer send, Buffer recv, Counts counts, Deadline deadline) {
  const int64_t mine = counts[static_cast<size_t>(rank())];
  Exchange x(team_, Call{.kind = Kind::kAllGather, .dtype = recv.dtype}, send, Counts(&mine, 1),
             recv);
  x.Compare(counts);
  LOCKSTEP_RETURN_IF_ERROR(x.Begin(deadline));
  const size_t element_bytes = SizeOf(recv.dtype);
  const Stores stores = StoresFor(recv.size_bytes() * static_cast<size_t>(size() + 1));
  return x.ForEachWindow(
      LongestOf(counts),
      [&](const Window& window) {
        ForEachPart(counts, Order::kSameForAll, [&](int r, size_t offset, int64_t count) {
          const size_t n = window.CountOf(count);
          if (n == 0) return;
          Copy(x.Destination(rank(), offset, window), x.Source(r, 0, 0, window), n * element_bytes,
               stores);
        });
      },
      deadline);
}

Status Movements::Gather(ConstBuffer send, Buffer recv, Counts counts, Rank root,
                         Deadline deadline) {
  const int64_t mine = counts[static_cast<size_t>(rank())];
  if (rank() == root) {
    if (send.data != PartOf(recv, counts, rank())) {
      LOCKSTEP_RETURN_IF_ERROR(CheckOverlap(send, recv, nullptr));
    }
  }
  Exchange x(team_,
             Call{.kind = Kind::kGather, .dtype = send.dtype, .root = static_cast<uint16_t>(root)},
             send, Counts(&mine, 1), recv);
  x.Compare(counts);
  const size_t element_bytes = SizeOf(send.dtype);
  if (rank() == root && LongestOf(counts) * element_bytes > kFlatBytes) x.OfferRecv();
  LOCKSTEP_RETURN_IF_ERROR(x.Begin(deadline));
  const size_t total_bytes = static_cast<size_t>(SumOf(counts)) * element_bytes;
  const Stores stores = StoresFor(2 * total_bytes);
  const bool push = x.touches() && x.all_reachable();
  return x.ForEachWindow(
      LongestOf(counts),
      [&](const Window& window) {
        if (!push && rank() != root) return;
        size_t offset = 0;
        for (int r = 0; r < size(); ++r) {
          const int64_t count = counts[static_cast<size_t>(r)];
          const size_t n = window.CountOf(count);
          if (n > 0 && (!push || r == rank())) {
            Copy(x.Destination(root, offset, window), x.Source(r, 0, 0, window), n * element_bytes,
                 stores);
          }
          offset += static_cast<size_t>(count);
        }
      },
      deadline);
}

Status Movements::Scatter(ConstBuffer send, Buffer recv, Counts counts, Rank root,
                          Deadline deadline) {
  const int64_t mine = counts[static_cast<size_t>(rank())];
  Exchange x(team_,
             Call{.kind = Kind::kScatter, .dtype = recv.dtype, .root = static_cast<uint16_t>(root)},
             send, rank() == root ? counts : Counts(), recv);
  x.Compare(counts);
  LOCKSTEP_RETURN_IF_ERROR(x.Begin(deadline));
  const size_t element_bytes = SizeOf(recv.dtype);
  const auto offset = static_cast<size_t>(OffsetOf(counts, rank()));
  const size_t total_bytes = static_cast<size_t>(SumOf(counts)) * element_bytes;
  const Stores stores = StoresFor(2 * total_bytes);
  return x.ForEachWindow(
      LongestOf(counts),
      [&](const Window& window) {
        const size_t n = window.CountOf(mine);
        if (n == 0) return;
        Copy(x.Destination(rank(), 0, window),
             x.Source(root, static_cast<size_t>(rank()), offset, window), n * element_bytes,
             stores);
      },
      deadline);
}

Status Movements::AllToAll(ConstBuffer send, Counts send_counts, Buffer recv, Counts recv_counts,
                           Deadline deadline) {
  const auto mine = static_cast<size_t>(rank());
  if (send_counts[mine] != recv_counts[mine]) {
    return InvalidArgument("rank ", team_.WorldRank(rank()), " sends ", send_counts[mine],
                           " elements to itself, but expects ", recv_counts[mine]);
  }
  Exchange x(team_, Call{.kind = Kind::kAllToAll, .dtype = send.dtype}, send, send_counts, recv);
  x.CompareByPairs(send_counts, recv_counts);
  LOCKSTEP_RETURN_IF_ERROR(x.Begin(deadline));
  LOCKSTEP_ASSIGN_OR_RETURN(const size_t longest, ComparePairs());
  const size_t element_bytes = SizeOf(send.dtype);
  const Stores stores =
      StoresFor((send.size_bytes() + recv.size_bytes()) * static_cast<size_t>(size()));
  return x.ForEachWindow(
      longest,
      [&](const Window& window) {
        ForEachPart(recv_counts, Order::kFromOwnOn, [&](int r, size_t offset, int64_t count) {
          const size_t n = window.CountOf(count);
          if (n == 0) return;
          const Counts theirs = team_.CountsOf(r).first(static_cast<size_t>(size()));
          const auto source_offset = static_cast<size_t>(OffsetOf(theirs, rank()));
          Copy(x.Destination(rank(), offset, window), x.Source(r, mine, source_offset, window),
               n * element_bytes, stores);
        });
      },
      deadline);
}

StatusOr<size_t> Movements::ComparePairs() const {
  const uint64_t each = team_.SlotOf(rank()).payload.at.each;
  bool even = each != kUneven;
  for (int r = 0; r < size(); ++r) even &= team_.SlotOf(r).payload.at.each == each;
  if (even) return static_cast<size_t>(each);
  size_t longest = 0;
  const auto n = static_cast<size_t>(size());
  for (size_t from = 0; from < n; ++from) {
    const Counts sent = team_.CountsOf(static_cast<int>(from)).first(n);
    longest = std::max(longest, LongestOf(sent));
    for (size_t to = 0; to < n; ++to) {
      const int64_t expected = team_.CountsOf(static_cast<int>(to))[n + from];
      if (sent[to] == expected) continue;
      return team_.Fail(InvalidArgument(
          "the ranks disagree: in an all-to-all, rank ", team_.WorldRank(static_cast<int>(from)),
          " sends ", sent[to], " elements to rank ", team_.WorldRank(static_cast<int>(to)),
          ", which expects ", expected));
    }
  }
  return longest;
}

}  // namespace lockstep::collective::shm
