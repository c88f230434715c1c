// What one rank shows to the others of one communicator: its slot block.
//
// A block lies in the control area of its rank's arena, mapped by all members. Every line (64
// bytes) has one writer, but for the few words that say otherwise. All numbers only ever grow, so a
// reader needs to know only "at least".
//
//     Slot[2]        the operation that this rank is in, alternating (see Team::Meet)
//     Progress       how far it is inside of a large operation
//     Attention      how to wake it
//     Outbox[P]      its message to each peer (see Mailbox)
//     Inbox[P]       what it took from each peer
//     counts[2][2P]  its counts where they do not fit into the slot, alternating as the slots
//     payload[2]     its data up to kFlatBytes, alternating as the slots
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "runtime/collective/call.h"

namespace lockstep::collective::shm {

constexpr size_t kLineBytes = 64;
// Data that rides in the slot's own line.
constexpr size_t kInlineBytes = 32;
// Data up to this is copied into the block: one rendezvous, and no peer touches a tensor.
constexpr size_t kFlatBytes = 4096;

static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(std::atomic<uint64_t>) == 8,
              "words are shared between processes");

// Where data can be found: as bytes in the line, or as distances from the start of the arena.
union Payload {
  std::byte bytes[kInlineBytes];
  struct {
    uint64_t send_offset;
    uint64_t recv_offset;
    // All-to-all: what each pair of ranks exchanges if that is always the same; else kUneven.
    uint64_t each;
    // Elements between the parts of staged data.
    uint64_t send_stride;
  } at;
};
constexpr uint64_t kUneven = UINT64_MAX;

// Everything but `seq` is plain memory that the release store to `seq` publishes.
struct alignas(kLineBytes) Slot {
  std::atomic<uint64_t> seq;  // the operation that the rest belongs to
  Call call;
  uint64_t count;
  uint64_t counts_hash;
  Payload payload;
};
static_assert(sizeof(Slot) == kLineBytes);

struct alignas(kLineBytes) Progress {
  std::atomic<uint64_t> phase;     // the phases that this rank has finished
  std::atomic<uint64_t> touching;  // 1 while it reads or writes tensors of its peers
  // 1 once a peer has given up waiting for it to finish that, and may use its tensors for something
  // else: what was read is worth nothing. Written by any peer.
  std::atomic<uint64_t> abandoned;
};

struct alignas(kLineBytes) Attention {
  std::atomic<uint32_t> bell;         // a futex that this rank sleeps on; anyone rings it
  std::atomic<uint32_t> waiting_for;  // kNoRank, kAnyRank, or the rank it sleeps for + 1
  std::atomic<uint32_t> left;         // 1 once this rank gave up: its tensors are out of bounds
};
constexpr uint32_t kNoRank = 0;
constexpr uint32_t kAnyRank = UINT32_MAX;

struct alignas(kLineBytes) Outbox {
  std::atomic<uint64_t> seq;  // messages (or parts of long ones) posted to this peer
  Call call;                  // dtype and place of the message
  uint64_t count;             // elements of the whole message
  Payload payload;
};
static_assert(sizeof(Outbox) == kLineBytes);

struct alignas(kLineBytes) Inbox {
  std::atomic<uint64_t>
      taken;  // messages taken from this peer; kRefused is added if it did not fit
  std::atomic<uint64_t> reading;  // the message that is being read out of the sender's memory
  Call call;                      // of a refused message: what was expected
  uint64_t count;
};
constexpr uint64_t kRefused = uint64_t{1} << 63;

// A block of a communicator of `size` ranks, wherever it is mapped. A borrowed pointer.
class Block {
 public:
  Block() = default;
  Block(std::byte* base, int size) : base_(base), size_(static_cast<size_t>(size)) {}

  static size_t SizeBytes(int size) { return Block(nullptr, size).PayloadAt() + 2 * kFlatBytes; }

  Slot& slot(uint64_t seq) const { return At<Slot>((seq & 1) * sizeof(Slot)); }
  Progress& progress() const { return At<Progress>(kProgressAt); }
  Attention& attention() const { return At<Attention>(kAttentionAt); }
  Outbox& outbox(int to) const { return At<Outbox>(kMailAt + Index(to) * sizeof(Outbox)); }
  Inbox& inbox(int from) const {
    return At<Inbox>(kMailAt + size_ * sizeof(Outbox) + Index(from) * sizeof(Inbox));
  }
  absl::Span<int64_t> counts(uint64_t seq) const {
    return {&At<int64_t>(CountsAt() + (seq & 1) * 2 * size_ * sizeof(int64_t)), 2 * size_};
  }
  std::byte* payload(uint64_t seq) const { return base_ + PayloadAt() + (seq & 1) * kFlatBytes; }

 private:
  static constexpr size_t kProgressAt = 2 * sizeof(Slot);
  static constexpr size_t kAttentionAt = kProgressAt + sizeof(Progress);
  static constexpr size_t kMailAt = kAttentionAt + sizeof(Attention);

  static size_t Index(int rank) { return static_cast<size_t>(rank); }
  size_t CountsAt() const { return kMailAt + size_ * (sizeof(Outbox) + sizeof(Inbox)); }
  size_t PayloadAt() const {
    const size_t counts_bytes = 4 * size_ * sizeof(int64_t);
    return CountsAt() + (counts_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  }
  template <typename T>
  T& At(size_t offset) const {
    return *reinterpret_cast<T*>(base_ + offset);
  }

  std::byte* base_ = nullptr;
  size_t size_ = 0;
};

}  // namespace lockstep::collective::shm
