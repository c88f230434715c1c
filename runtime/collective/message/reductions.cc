#include "runtime/collective/message/reductions.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/base/bulk_memory.h"
#include "runtime/collective/checks.h"
#include "runtime/collective/groups.h"
#include "runtime/collective/kernels/kernels.h"

namespace lockstep::collective::message {
namespace {

// Up to this size two rounds cost more than what is sent more often in one.
constexpr size_t kFlatBytes = size_t{8} << 10;
constexpr size_t kWindowBytes = size_t{4} << 20;

const std::byte* At(const void* data, size_t offset) {
  return static_cast<const std::byte*>(data) + offset;
}
std::byte* At(void* data, size_t offset) { return static_cast<std::byte*>(data) + offset; }

}  // namespace

StatusOr<std::byte*> Reductions::Scratch(size_t size_bytes) {
  StatusOr<std::byte*> memory = scratch_.AtLeast(size_bytes);
  if (memory.ok()) return memory;
  const Rank self = rounds_.WorldRank(rank());
  return rounds_.Fail(Annotate(memory.status(), "rank " + std::to_string(self)));
}

void Reductions::Combine(absl::Span<const void* const> inputs, void* result, size_t count,
                         DType dtype, ReduceOp op) const {
  if (count == 0) return;
  kernels::CombineFor(op, dtype)(&result, 1, inputs.data(), size(), count, Stores::kCached);
}

Status Reductions::AllReduce(ConstBuffer send, Buffer recv, ReduceOp op, Deadline deadline) {
  const Announcement announced{{.kind = Kind::kAllReduce, .dtype = send.dtype, .op = op},
                               send.count};
  const size_t bytes = send.size_bytes();
  if (bytes > kFlatBytes && size() > 1) {
    return ReduceInSlices(announced, send, recv, op, -1, deadline);
  }
  Parts parts(size());
  std::vector<const void*> inputs;
  LOCKSTEP_ASSIGN_OR_RETURN(std::byte* const scratch, Scratch(bytes * static_cast<size_t>(size())));
  for (int r = 0; r < size(); ++r) {
    const auto i = static_cast<size_t>(r);
    parts.send[i] = {At(send.data, 0), bytes};
    parts.recv[i] = {scratch + i * bytes, bytes};
    inputs.push_back(r == rank() ? send.data : scratch + i * bytes);
  }
  LOCKSTEP_RETURN_IF_ERROR(rounds_.Meet(announced, parts, deadline));
  Combine(inputs, recv.data, send.count, send.dtype, op);
  return OkStatus();
}

Status Reductions::Reduce(ConstBuffer send, Buffer recv, ReduceOp op, Rank root,
                          Deadline deadline) {
  const bool is_root = rank() == root;
  const Announcement announced{
      {.kind = Kind::kReduce, .dtype = send.dtype, .op = op, .root = static_cast<uint16_t>(root)},
      send.count};
  const size_t bytes = send.size_bytes();
  if (bytes > kFlatBytes && size() > 1) {
    return ReduceInSlices(announced, send, recv, op, root, deadline);
  }
  Parts parts(size());
  std::vector<const void*> inputs;
  LOCKSTEP_ASSIGN_OR_RETURN(std::byte* const scratch,
                            Scratch(is_root ? bytes * static_cast<size_t>(size()) : 0));
  if (!is_root) parts.send[static_cast<size_t>(root)] = {At(send.data, 0), bytes};
  for (int r = 0; is_root && r < size(); ++r) {
    const auto i = static_cast<size_t>(r);
    parts.recv[i] = {scratch + i * bytes, bytes};
    inputs.push_back(r == rank() ? send.data : scratch + i * bytes);
  }
  LOCKSTEP_RETURN_IF_ERROR(rounds_.Meet(announced, parts, deadline));
  if (is_root) Combine(inputs, recv.data, send.count, send.dtype, op);
  return OkStatus();
}

Status Reductions::ReduceInSlices(const Announcement& announced, ConstBuffer send, Buffer recv,
                                  ReduceOp op, Rank root, Deadline deadline) {
  const size_t element_bytes = SizeOf(send.dtype);
  const size_t window = kWindowBytes / element_bytes * static_cast<size_t>(size());
  const bool wants_all = root < 0 || root == rank();
  // Others' inputs of this rank's slice; and, where it is only passed on, its result.
  const size_t slice_bytes =
      (std::min(window, send.count) / static_cast<size_t>(size()) + 512) * element_bytes;
  LOCKSTEP_ASSIGN_OR_RETURN(std::byte* const scratch,
                            Scratch(slice_bytes * static_cast<size_t>(size() + 1)));
  const auto slice_of = [&](size_t begin, int r) {
    Slice slice = SliceOf(std::min(window, send.count - begin), element_bytes, r, size());
    slice.begin += begin;
    return slice;
  };
  const auto offer_inputs = [&](Parts& parts, size_t begin) {
    const Slice mine = slice_of(begin, rank());
    for (int r = 0; r < size(); ++r) {
      const auto i = static_cast<size_t>(r);
      const Slice theirs = slice_of(begin, r);
      parts.send[i] = {At(send.data, theirs.begin * element_bytes), theirs.count * element_bytes};
      parts.recv[i] = {scratch + i * slice_bytes, mine.count * element_bytes};
    }
  };
  Parts first(size());
  offer_inputs(first, 0);
  LOCKSTEP_RETURN_IF_ERROR(rounds_.Meet(announced, first, deadline));
  for (size_t begin = 0; begin < send.count; begin += window) {
    const Slice mine = slice_of(begin, rank());
    std::vector<const void*> inputs;
    for (int r = 0; r < size(); ++r) {
      inputs.push_back(r == rank() ? At(send.data, mine.begin * element_bytes)
                                   : scratch + static_cast<size_t>(r) * slice_bytes);
    }
    std::byte* const result = wants_all ? At(recv.data, mine.begin * element_bytes)
                                        : scratch + static_cast<size_t>(size()) * slice_bytes;
    Combine(inputs, result, mine.count, send.dtype, op);
    Parts results(size());
    for (int r = 0; r < size(); ++r) {
      const auto i = static_cast<size_t>(r);
      const Slice theirs = slice_of(begin, r);
      if (root < 0 || root == r) results.send[i] = {result, mine.count * element_bytes};
      if (wants_all) {
        results.recv[i] = {At(recv.data, theirs.begin * element_bytes),
                           theirs.count * element_bytes};
      }
    }
    Parts next(size());
    const bool is_last = begin + window >= send.count;
    if (!is_last) offer_inputs(next, begin + window);
    LOCKSTEP_RETURN_IF_ERROR(rounds_.Move(results, deadline, is_last ? nullptr : &next));
  }
  return OkStatus();
}

Status Reductions::ReduceScatter(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                                 Deadline deadline) {
  const auto mine = static_cast<size_t>(counts[static_cast<size_t>(rank())]);
  const size_t element_bytes = SizeOf(send.dtype);
  const std::byte* const own =
      At(send.data, static_cast<size_t>(OffsetOf(counts, rank())) * element_bytes);
  const size_t bytes = mine * element_bytes;
  Parts parts(size());
  std::vector<const void*> inputs;
  LOCKSTEP_ASSIGN_OR_RETURN(std::byte* const scratch, Scratch(bytes * static_cast<size_t>(size())));
  size_t offset = 0;
  for (int r = 0; r < size(); ++r) {
    const auto i = static_cast<size_t>(r);
    const size_t theirs = static_cast<size_t>(counts[i]) * element_bytes;
    parts.send[i] = {At(send.data, offset), theirs};
    parts.recv[i] = {scratch + i * bytes, bytes};
    inputs.push_back(r == rank() ? own : scratch + i * bytes);
    offset += theirs;
  }
  LOCKSTEP_RETURN_IF_ERROR(rounds_.Meet(
      {{.kind = Kind::kReduceScatter, .dtype = send.dtype, .op = op}, send.count, counts}, parts,
      deadline));
  Combine(inputs, recv.data, mine, send.dtype, op);
  return OkStatus();
}

}  // namespace lockstep::collective::message
