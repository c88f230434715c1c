#include "runtime/collective/message/movements.h"

#include <cstring>

#include "runtime/base/bulk_memory.h"
#include "runtime/collective/checks.h"
#include "runtime/collective/groups.h"

namespace lockstep::collective::message {
namespace {

constexpr size_t kFlatBroadcastBytes = size_t{32} << 10;

// The parts of `buffer` that belong to the ranks.
template <typename Byte, typename AnyBuffer>
std::vector<absl::Span<Byte>> PartsOf(const AnyBuffer& buffer, Counts counts) {
  std::vector<absl::Span<Byte>> parts;
  size_t offset = 0;
  for (const int64_t count : counts) {
    const size_t bytes = static_cast<size_t>(count) * SizeOf(buffer.dtype);
    parts.push_back({static_cast<Byte*>(buffer.data) + offset, bytes});
    offset += bytes;
  }
  return parts;
}

void Copy(absl::Span<std::byte> to, const void* from) {
  if (to.data() != from && !to.empty()) FastCopy(to.data(), from, to.size());
}

}  // namespace

Status Movements::Broadcast(ConstBuffer send, Buffer recv, Rank root, Deadline deadline) {
  const bool is_root = rank() == root;
  const Announcement announced{
      {.kind = Kind::kBroadcast, .dtype = recv.dtype, .root = static_cast<uint16_t>(root)},
      recv.count};
  const size_t bytes = recv.size_bytes();
  auto* const to = static_cast<std::byte*>(recv.data);
  const auto* const from = static_cast<const std::byte*>(send.data);
  const auto root_index = static_cast<size_t>(root);
  if (bytes <= kFlatBroadcastBytes || size() <= 2) {
    Parts parts(size());
    if (is_root) {
      for (auto& part : parts.send) part = {from, bytes};
    } else {
      parts.recv[root_index] = {to, bytes};
    }
    LOCKSTEP_RETURN_IF_ERROR(rounds_.Meet(announced, parts, deadline));
  } else {
    // Slices for all but the root, in rank order.
    const auto slice_of = [&](int r) {
      return SliceOf(bytes, 1, r < root ? r : r - 1, size() - 1);
    };
    Parts dealt(size());
    Parts passed(size());
    for (int r = 0; r < size(); ++r) {
      if (r == root || r == rank()) continue;
      const Slice slice = slice_of(r);
      const auto i = static_cast<size_t>(r);
      if (is_root) {
        dealt.send[i] = {from + slice.begin, slice.count};
      } else {
        const Slice mine = slice_of(rank());
        passed.send[i] = {to + mine.begin, mine.count};
        passed.recv[i] = {to + slice.begin, slice.count};
      }
    }
    if (!is_root) {
      const Slice mine = slice_of(rank());
      dealt.recv[root_index] = {to + mine.begin, mine.count};
    }
    LOCKSTEP_RETURN_IF_ERROR(rounds_.Meet(announced, dealt, deadline));
    LOCKSTEP_RETURN_IF_ERROR(rounds_.Move(passed, deadline));
  }
  if (is_root) Copy({to, bytes}, from);
  return OkStatus();
}

Status Movements::AllGather(ConstBuffer send, Buffer recv, Counts counts, Deadline deadline) {
  const auto mine = static_cast<size_t>(rank());
  Parts parts(size());
  parts.recv = PartsOf<std::byte>(recv, counts);
  for (auto& part : parts.send) {
    part = {static_cast<const std::byte*>(send.data), send.size_bytes()};
  }
  LOCKSTEP_RETURN_IF_ERROR(rounds_.Meet(
      {{.kind = Kind::kAllGather, .dtype = recv.dtype}, recv.count, counts}, parts, deadline));
  Copy(parts.recv[mine], send.data);
  return OkStatus();
}

Status Movements::Gather(ConstBuffer send, Buffer recv, Counts counts, Rank root,
                         Deadline deadline) {
  const auto mine = static_cast<size_t>(rank());
  Parts parts(size());
  if (rank() == root) {
    parts.recv = PartsOf<std::byte>(recv, counts);
  } else {
    parts.send[static_cast<size_t>(root)] = {static_cast<const std::byte*>(send.data),
                                             send.size_bytes()};
  }
  LOCKSTEP_RETURN_IF_ERROR(rounds_.Meet(
      {{.kind = Kind::kGather, .dtype = send.dtype, .root = static_cast<uint16_t>(root)},
       static_cast<uint64_t>(SumOf(counts)),
       counts},
      parts, deadline));
  if (rank() == root) Copy(parts.recv[mine], send.data);
  return OkStatus();
}

Status Movements::Scatter(ConstBuffer send, Buffer recv, Counts counts, Rank root,
                          Deadline deadline) {
  const auto mine = static_cast<size_t>(rank());
  Parts parts(size());
  const auto* own = static_cast<const std::byte*>(nullptr);
  if (rank() == root) {
    parts.send = PartsOf<const std::byte>(send, counts);
    own = parts.send[mine].data();
  } else {
    parts.recv[static_cast<size_t>(root)] = {static_cast<std::byte*>(recv.data), recv.size_bytes()};
  }
  LOCKSTEP_RETURN_IF_ERROR(rounds_.Meet(
      {{.kind = Kind::kScatter, .dtype = recv.dtype, .root = static_cast<uint16_t>(root)},
       static_cast<uint64_t>(SumOf(counts)),
       counts},
      parts, deadline));
  if (rank() == root) Copy({static_cast<std::byte*>(recv.data), recv.size_bytes()}, own);
  return OkStatus();
}

Status Movements::AllToAll(ConstBuffer send, Counts send_counts, Buffer recv, Counts recv_counts,
                           Deadline deadline) {
  const auto mine = static_cast<size_t>(rank());
  Parts parts(size());
  parts.send = PartsOf<const std::byte>(send, send_counts);
  parts.recv = PartsOf<std::byte>(recv, recv_counts);
  std::vector<int64_t> counts(send_counts.begin(), send_counts.end());
  counts.insert(counts.end(), recv_counts.begin(), recv_counts.end());
  LOCKSTEP_RETURN_IF_ERROR(
      rounds_.Meet({{.kind = Kind::kAllToAll, .dtype = send.dtype}, 0, counts}, parts, deadline));
  Copy(parts.recv[mine], parts.send[mine].data());
  return OkStatus();
}

}  // namespace lockstep::collective::message
