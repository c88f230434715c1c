#include "runtime/control/shm/broadcast_ring.h"

#include <algorithm>
#include <utility>

namespace lockstep::control {

uint64_t BroadcastWriter::AddReader(int slot, const std::atomic<uint64_t>* read) {
  readers_.push_back({slot, read, head_});
  slowest_ = std::min(slowest_, head_);
  return head_;
}

void BroadcastWriter::RemoveReader(int slot) {
  std::erase_if(readers_, [slot](const Reader& reader) { return reader.slot == slot; });
  std::erase(broken_, slot);
}

bool BroadcastWriter::HasRoom(uint64_t words) {
  const uint64_t end = head_ + words;
  // Positions are compared by their distance from the head: a ring's capacity at most.
  if (end - slowest_ <= ring_.capacity()) [[likely]]
    return true;
  slowest_ = head_;
  for (auto reader = readers_.begin(); reader != readers_.end();) {
    // Before it has begun to read its mark is the zero of new memory.
    const uint64_t noted = reader->read->load(std::memory_order_seq_cst);
    const uint64_t read = noted == 0 ? reader->last : noted;
    if (read < reader->last || read > head_) {
      broken_.push_back(reader->slot);
      reader = readers_.erase(reader);
      continue;
    }
    reader->last = read;
    slowest_ = std::min(slowest_, read);
    ++reader;
  }
  return end - slowest_ <= ring_.capacity();
}

bool BroadcastWriter::Write(RecordKind kind, uint64_t tag, const Message& message) {
  const uint64_t words = RecordWords(message);
  if (!HasRoom(words)) return false;
  BroadcastMemory::Header& header = memory_.header();
  if (head_ + words > ring_.capacity()) {
    // Whoever sees a word that is written below sees this, too, once it has read the word: also on
    // processors that reorder stores.
    header.floor.store(head_ + words - ring_.capacity(), std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
  }
  WriteRecord(ring_, head_, kind, tag, message);
  head_ += words;
  header.head.store(head_, std::memory_order_seq_cst);
  return true;
}

void BroadcastWriter::AwaitRoom(uint64_t words) {
  const uint64_t end = words == 0 ? 0 : head_ + words;
  const uint64_t wanted = end > ring_.capacity() ? end - ring_.capacity() : 0;
  std::atomic<uint64_t>& told = memory_.header().wanted;
  if (told.load(std::memory_order_relaxed) != wanted) {
    told.store(wanted, std::memory_order_seq_cst);
  }
}

std::vector<int> BroadcastWriter::TakeBroken() { return std::exchange(broken_, {}); }

BroadcastReader::BroadcastReader(const BroadcastMemory& memory, int slot, uint64_t start,
                                 std::atomic<uint64_t>& read)
    : memory_(memory),
      slot_(static_cast<uint64_t>(slot)),
      position_(start),
      head_(start),
      read_(read) {
  read_.store(start, std::memory_order_seq_cst);
}

Status BroadcastReader::CheckNotOvertaken() const {
  // After the copy: if it holds a word that was written over, the floor that was stored before is
  // seen here.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (memory_.header().floor.load(std::memory_order_relaxed) <= position_) [[likely]]
    return OkStatus();
  return DataLoss(
      "the controller does not wait for this process any more: what it had yet to read "
      "was written over");
}

void BroadcastReader::MoveTo(uint64_t position) {
  position_ = position;
  read_.store(position, std::memory_order_seq_cst);
}

StatusOr<BroadcastReader::Next> BroadcastReader::Take(Message* message) {
  while (true) {
    if (position_ == head_) {
      head_ = memory_.header().head.load(std::memory_order_seq_cst);
      if (position_ == head_) return Next::kNothing;
    }
    const RecordHeader header = ReadRecordHeader(memory_.ring(), position_);
    LOCKSTEP_RETURN_IF_ERROR(CheckNotOvertaken());
    LOCKSTEP_RETURN_IF_ERROR(CheckRecordHeader(header, head_ - position_));
    if (header.tag != kAllReaders && header.tag != slot_) {
      MoveTo(position_ + header.words);
      continue;
    }
    const CopiedRecord record = CopyRecord(memory_.ring(), position_, header);
    LOCKSTEP_RETURN_IF_ERROR(CheckNotOvertaken());
    LOCKSTEP_ASSIGN_OR_RETURN(*message, FramesOf(record));
    MoveTo(position_ + header.words);
    return header.kind == RecordKind::kBySocket ? Next::kBySocket : Next::kMessage;
  }
}

bool BroadcastReader::HasInput() const {
  return position_ != memory_.header().head.load(std::memory_order_seq_cst);
}

bool BroadcastReader::GivesAwaitedRoom() const {
  const uint64_t wanted = memory_.header().wanted.load(std::memory_order_seq_cst);
  return wanted != 0 && position_ >= wanted;
}

}  // namespace lockstep::control
