// The header of an operation: what all ranks must agree about, and how a disagreement is told.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/operation.h"

namespace lockstep::collective {

// Where a rank's data is, for the others.
enum class Place : uint8_t {
  kNone,     // there is none
  kInline,   // in the slot
  kFlat,     // in the block's payload area
  kArena,    // in its arena, at an offset
  kStaged,   // outside; copied through a piece of its arena, window by window
  kPrivate,  // outside; nobody else touches it
};

// One word, so that comparing two calls is comparing two integers.
struct Call {
  Kind kind = Kind::kBarrier;
  DType dtype = DType::kUInt8;
  ReduceOp op = ReduceOp::kSum;
  uint8_t uneven = 0;  // 1 if the ranks' counts differ among themselves; then they are hashed
  uint16_t root = 0;
  // These two may differ from rank to rank.
  Place send = Place::kNone;
  Place recv = Place::kNone;

  // True if both name the same operation.
  bool Agrees(const Call& other) const { return Agreed() == other.Agreed(); }

 private:
  uint64_t Agreed() const {
    Call call = *this;
    call.send = Place::kNone;
    call.recv = Place::kNone;
    return std::bit_cast<uint64_t>(call);
  }
};
static_assert(sizeof(Call) == 8);

// "allreduce sum of 4 float32", "broadcast of 4 float32 from rank 1", "barrier". `counts` are told
// where the call says that they are uneven. `root` is the world rank that call.root stands for.
std::string Describe(const Call& call, uint64_t count, absl::Span<const int64_t> counts, Rank root);

// "the ranks disagree: ranks 0, 1 call barrier; rank 2 calls ..." from each rank's description, in
// rank order, and each rank's number in the world.
std::string DescribeDisagreement(absl::Span<const std::string> descriptions,
                                 absl::Span<const Rank> world_ranks);

// Who is missing from `what`, by rank of the world. One that ended is why others gave up, and is
// named before them (kUnavailable); if nobody did either, they are late (kDeadlineExceeded).
Status DescribeAbsence(std::vector<Rank> ended, std::vector<Rank> left, std::vector<Rank> late,
                       const std::string& what);

// Mixes `value` into the hash `seed`.
constexpr uint64_t Mix(uint64_t seed, uint64_t value) {
  // The finaliser of SplitMix64.
  uint64_t x = seed + 0x9e3779b97f4a7c15 + value * 0xff51afd7ed558ccd;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The same for each character of a text.
constexpr uint64_t MixText(uint64_t seed, std::string_view text) {
  for (const char c : text) seed = Mix(seed, static_cast<uint64_t>(c));
  return seed;
}

}  // namespace lockstep::collective
