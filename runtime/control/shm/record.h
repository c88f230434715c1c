// Records: messages as they lie in a ring.
//
//     word 0      the record's words (32 bits), frames (16 bits), kind (16 bits)
//     word 1      whom it is for, or its number: see the rings
//     then        the size of each frame in bytes, a word each
//     then        the frames, each filled up to whole words
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/shm/word_ring.h"

namespace lockstep::control {

inline constexpr uint64_t kRecordHeaderWords = 2;
// Messages of more are nothing that we say to one another.
inline constexpr uint16_t kMaxRecordFrames = 8;

enum class RecordKind : uint16_t {
  kMessage = 1,
  kBySocket = 2,  // stands for a message that comes by socket
};

struct RecordHeader {
  uint32_t words = 0;  // of the whole record
  uint16_t frames = 0;
  RecordKind kind = RecordKind::kMessage;
  uint64_t tag = 0;  // word 1
};

// What `message` takes in a ring; more than any ring has for what is too large or has too many
// frames.
uint64_t RecordWords(const Message& message);

// Writes it. There is room, and RecordWords() of it fits the header.
void WriteRecord(WordRing& ring, uint64_t at, RecordKind kind, uint64_t tag,
                 const Message& message);

// Whatever the two words hold: nothing of it is checked.
RecordHeader ReadRecordHeader(const WordRing& ring, uint64_t at);
// OK if a record of this header can be, in a ring that has `available` words from its beginning on.
// kInvalidArgument: it cannot.
Status CheckRecordHeader(const RecordHeader& header, uint64_t available);

// The rest of a record, copied out of its ring; `header` was checked.
struct CopiedRecord {
  RecordHeader header;
  std::shared_ptr<uint64_t[]> words;  // those behind the header's
};
CopiedRecord CopyRecord(const WordRing& ring, uint64_t at, const RecordHeader& header);

// The frames of what was copied, which share its memory. kInvalidArgument: their sizes make no
// sense.
StatusOr<Message> FramesOf(const CopiedRecord& record);

}  // namespace lockstep::control
