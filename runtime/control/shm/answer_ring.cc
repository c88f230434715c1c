#include "runtime/control/shm/answer_ring.h"

namespace lockstep::control {

bool AnswerWriter::Write(uint64_t number, const Message& message) {
  const uint64_t words = RecordWords(message);
  const uint64_t used = head_ - taken();
  if (used > ring_.capacity() || words > ring_.capacity() - used) return false;
  WriteRecord(ring_, head_, RecordKind::kMessage, number, message);
  head_ += words;
  memory_.header().head.store(head_, std::memory_order_seq_cst);
  return true;
}

StatusOr<bool> AnswerReader::Take(uint64_t* number, Message* message) {
  const uint64_t head = memory_.header().head.load(std::memory_order_seq_cst);
  const uint64_t available = head - position_;
  if (available == 0) return false;
  if (available > memory_.ring().capacity()) {
    return InvalidArgument("a ring of ", memory_.ring().capacity(), " words holds ", available);
  }
  const RecordHeader header = ReadRecordHeader(memory_.ring(), position_);
  LOCKSTEP_RETURN_IF_ERROR(CheckRecordHeader(header, available));
  if (header.kind != RecordKind::kMessage) return InvalidArgument("a record is no message");
  const CopiedRecord record = CopyRecord(memory_.ring(), position_, header);
  LOCKSTEP_ASSIGN_OR_RETURN(*message, FramesOf(record));
  *number = header.tag;
  position_ += header.words;
  taken_.store(position_, std::memory_order_release);
  return true;
}

}  // namespace lockstep::control
