#include "runtime/control/shm/record.h"

#include <limits>
#include <utility>

namespace lockstep::control {
namespace {

constexpr int kFramesShift = 32;
constexpr int kKindShift = 48;

}  // namespace

uint64_t RecordWords(const Message& message) {
  if (message.size() > kMaxRecordFrames) return std::numeric_limits<uint64_t>::max();
  uint64_t words = kRecordHeaderWords + message.size();
  for (const Frame& frame : message) words += WordsFor(frame.size());
  return words;
}

void WriteRecord(WordRing& ring, uint64_t at, RecordKind kind, uint64_t tag,
                 const Message& message) {
  ring.Store(at, RecordWords(message) | uint64_t{message.size()} << kFramesShift |
                     static_cast<uint64_t>(kind) << kKindShift);
  ring.Store(at + 1, tag);
  at += kRecordHeaderWords;
  for (const Frame& frame : message) ring.Store(at++, frame.size());
  for (const Frame& frame : message) {
    ring.Write(at, frame.data(), frame.size());
    at += WordsFor(frame.size());
  }
}

RecordHeader ReadRecordHeader(const WordRing& ring, uint64_t at) {
  const uint64_t first = ring.Load(at);
  return {static_cast<uint32_t>(first), static_cast<uint16_t>(first >> kFramesShift),
          static_cast<RecordKind>(first >> kKindShift), ring.Load(at + 1)};
}

Status CheckRecordHeader(const RecordHeader& header, uint64_t available) {
  const bool is_known = header.kind == RecordKind::kMessage || header.kind == RecordKind::kBySocket;
  if (is_known && header.frames <= kMaxRecordFrames && header.words <= available &&
      header.words >= kRecordHeaderWords + header.frames) {
    return OkStatus();
  }
  return InvalidArgument("a record of kind ", static_cast<int>(header.kind), " with ",
                         header.frames, " frames and ", header.words, " words, of ", available);
}

CopiedRecord CopyRecord(const WordRing& ring, uint64_t at, const RecordHeader& header) {
  const uint64_t count = header.words - kRecordHeaderWords;
  CopiedRecord record{header, std::make_shared_for_overwrite<uint64_t[]>(count)};
  ring.Read(at + kRecordHeaderWords, record.words.get(), count);
  return record;
}

StatusOr<Message> FramesOf(const CopiedRecord& record) {
  uint64_t at = record.header.frames;
  const uint64_t end = record.header.words - kRecordHeaderWords;
  Message message;
  for (uint16_t i = 0; i < record.header.frames; ++i) {
    const uint64_t size_bytes = record.words[i];
    // Compared before it is rounded up, which could overflow.
    if (size_bytes > (end - at) * kRingWordBytes) {
      return InvalidArgument("frame ", i, " of a record has ", size_bytes, " bytes, and ",
                             (end - at) * kRingWordBytes, " are left");
    }
    message.emplace_back(record.words, &record.words[at], size_bytes);
    at += WordsFor(size_bytes);
  }
  if (at != end) return InvalidArgument("a record has ", end - at, " words too many");
  return message;
}

}  // namespace lockstep::control
