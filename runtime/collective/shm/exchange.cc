#include "runtime/collective/shm/exchange.h"

#include "runtime/base/bulk_memory.h"
#include "runtime/collective/groups.h"

namespace lockstep::collective::shm {
namespace {

bool AllEqual(Counts counts) {
  return std::all_of(counts.begin(), counts.end(), [&](int64_t c) { return c == counts[0]; });
}

// The parts of these are for different ranks, and staged side by side.
bool SendsByParts(Kind kind) {
  return kind == Kind::kReduceScatter || kind == Kind::kScatter || kind == Kind::kAllToAll;
}

}  // namespace

void Exchange::Compare(Counts counts) {
  for (int64_t count : counts) count_ += static_cast<uint64_t>(count);
  if (AllEqual(counts)) return;
  call_.uneven = 1;
  for (int64_t count : counts) counts_hash_ = Mix(counts_hash_, static_cast<uint64_t>(count));
  // Should the hashes differ, the error message tells the counts.
  std::copy(counts.begin(), counts.end(), team_.NextCounts().begin());
}

void Exchange::CompareByPairs(Counts send_counts, Counts recv_counts) {
  const bool even =
      AllEqual(send_counts) && AllEqual(recv_counts) && send_counts[0] == recv_counts[0];
  each_ = even ? static_cast<uint64_t>(send_counts[0]) : kUneven;
  const auto counts = team_.NextCounts();
  std::copy(send_counts.begin(), send_counts.end(), counts.begin());
  std::copy(recv_counts.begin(), recv_counts.end(), counts.begin() + team_.size());
}

Status Exchange::Begin(Deadline deadline) {
  Slot& slot = team_.NextSlot();
  slot.payload.at.each = each_;
  LOCKSTEP_RETURN_IF_ERROR(PlaceRecv(slot));
  LOCKSTEP_RETURN_IF_ERROR(PlaceSend(slot));
  slot.call = call_;
  slot.count = count_;
  slot.counts_hash = counts_hash_;
  LOCKSTEP_RETURN_IF_ERROR(team_.Meet(deadline));
  Survey();
  return OkStatus();
}

Status Exchange::PlaceSend(Slot& slot) {
  const size_t size_bytes = send_.size_bytes();
  if (size_bytes == 0) {
    call_.send = BufferLocation::kNone;
  } else if (size_bytes <= kInlineBytes && call_.recv == BufferLocation::kNone &&
             call_.kind != Kind::kAllToAll) {
    // (What is left out here has other uses for the slot's payload.)
    call_.send = BufferLocation::kInline;
    std::memcpy(slot.payload.bytes, send_.data, size_bytes);
  } else if (size_bytes <= kFlatBytes) {
    call_.send = BufferLocation::kFlat;
    std::memcpy(team_.NextPayload(), send_.data, size_bytes);
  } else if (Reaches(send_)) {
    call_.send = BufferLocation::kArena;
    slot.payload.at.send_offset = team_.arena().OffsetOf(send_.data);
  } else {
    call_.send = BufferLocation::kStaged;
    const auto longest = static_cast<size_t>(*std::max_element(parts_.begin(), parts_.end()));
    send_stride_ = std::min(longest, StageLength());
    StatusOr<std::shared_ptr<tensor::Storage>> stage =
        team_.arena().Allocate(parts_.size() * send_stride_ * element_bytes_);
    if (!stage.ok()) return team_.Fail(stage.status());
    send_stage_ = *std::move(stage);
    slot.payload.at.send_offset = team_.arena().OffsetOf(send_stage_->data());
    slot.payload.at.send_stride = send_stride_;
    StageIn(0);
  }
  return OkStatus();
}

Status Exchange::PlaceRecv(Slot& slot) {
  team_.Expose(nullptr);
  if (call_.recv == BufferLocation::kArena) {
    team_.Expose(recv_.data);
    slot.payload.at.recv_offset = team_.arena().OffsetOf(recv_.data);
  } else if (call_.recv == BufferLocation::kStaged) {
    StatusOr<std::shared_ptr<tensor::Storage>> stage =
        team_.arena().Allocate(std::min(recv_.count, StageLength()) * element_bytes_);
    if (!stage.ok()) return team_.Fail(stage.status());
    recv_stage_ = *std::move(stage);
    team_.Expose(recv_stage_->data());
    slot.payload.at.recv_offset = team_.arena().OffsetOf(recv_stage_->data());
  }
  return OkStatus();
}

void Exchange::Survey() {
  for (int r = 0; r < team_.size(); ++r) {
    const Call& call = team_.SlotOf(r).call;
    const bool send_staged = call.send == BufferLocation::kStaged;
    const bool recv_staged = call.recv == BufferLocation::kStaged;
    staged_ |= send_staged || recv_staged;
    recv_staged_ |= recv_staged;
    touches_ |= send_staged || recv_staged || call.send == BufferLocation::kArena ||
                call.recv == BufferLocation::kArena;
    all_reachable_ &= call.recv != BufferLocation::kPrivate;
    all_offered_ &= call.recv == BufferLocation::kArena || recv_staged;
  }
}

size_t Exchange::StageLength() const {
  const size_t parts = SendsByParts(call_.kind) ? static_cast<size_t>(team_.size()) : 1;
  return std::max<size_t>(1, kStageBytes / element_bytes_ / parts);
}

void Exchange::StageIn(size_t begin) {
  const Window window{begin, begin + StageLength()};
  const auto* from = static_cast<const std::byte*>(send_.data) + begin * element_bytes_;
  auto* to = static_cast<std::byte*>(send_stage_->data());
  for (int64_t part : parts_) {
    FastCopy(to, from, window.CountOf(part) * element_bytes_, Stores::kCached);
    from += static_cast<size_t>(part) * element_bytes_;
    to += send_stride_ * element_bytes_;
  }
}

void Exchange::StageOut(const Window& window) {
  FastCopy(static_cast<std::byte*>(recv_.data) + window.begin * element_bytes_, recv_stage_->data(),
           (window.end - window.begin) * element_bytes_, Stores::kCached);
}

void Exchange::CollectSlicesOf(const Window& window) {
  const size_t count = window.end - window.begin;
  std::byte* const to = static_cast<std::byte*>(recv_.data) + window.begin * element_bytes_;
  for (int r = 0; r < team_.size(); ++r) {
    const Slice slice = SliceOf(count, element_bytes_, r, team_.size());
    const size_t at = slice.begin * element_bytes_;
    FastCopy(to + at, Destination(r, 0, window) + at, slice.count * element_bytes_,
             Stores::kCached);
  }
}

const std::byte* Exchange::Source(int r, size_t part, size_t offset, const Window& window) const {
  const size_t at = (offset + window.begin) * element_bytes_;
  if (r == team_.rank()) return static_cast<const std::byte*>(send_.data) + at;
  const Slot& slot = team_.SlotOf(r);
  switch (slot.call.send) {
    case BufferLocation::kInline:
      return slot.payload.bytes + at;
    case BufferLocation::kFlat:
      return team_.PayloadOf(r) + at;
    case BufferLocation::kStaged:
      return team_.At(r, slot.payload.at.send_offset) +
             part * slot.payload.at.send_stride * element_bytes_;
    default:
      return team_.At(r, slot.payload.at.send_offset) + at;
  }
}

std::byte* Exchange::Destination(int r, size_t offset, const Window& window) const {
  const size_t at = (offset + window.begin) * element_bytes_;
  const Slot& slot = team_.SlotOf(r);
  if (slot.call.recv == BufferLocation::kStaged) return team_.At(r, slot.payload.at.recv_offset);
  if (r == team_.rank()) return static_cast<std::byte*>(recv_.data) + at;
  return team_.At(r, slot.payload.at.recv_offset) + at;
}

}  // namespace lockstep::collective::shm
