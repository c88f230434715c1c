// How messages lie on a connection: cut into chunks, each behind a header, so that a rank which
// gives up in the middle of one can still say why: what it says takes the next chunk's place.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/collective/message/transport.h"

namespace lockstep::collective::tcp {

// In the byte order of the machine, which is that of all ranks.
struct ChunkHeader {
  uint64_t tag = 0;
  uint64_t left_bytes = 0;  // of the message, with this chunk
};

// A rank that gives up sends no more than the rest of one before it says so.
inline constexpr uint64_t kChunkBytes = uint64_t{256} << 10;

// Of the chunk that a message's `left_bytes` begin with.
inline uint64_t ChunkBytes(uint64_t left_bytes) { return std::min(kChunkBytes, left_bytes); }

// A rank's last message; no other one has this tag.
inline constexpr uint64_t kLeaveTag = ~uint64_t{0};
struct LeaveWords {
  uint32_t code = 0;
  uint32_t length = 0;
  std::array<char, message::kLeaveReasonBytes> text = {};
};

// What a rank says that leaves because of `why`: as much of it as there is room for.
LeaveWords WordsFor(const Status& why);

// What is moved in one go, before anybody looks at deadlines and other connections again.
inline constexpr size_t kMostBytesAtOnce = size_t{4} << 20;

// What of errno says that a call may go well later.
bool IsTemporary(int error);

}  // namespace lockstep::collective::tcp
