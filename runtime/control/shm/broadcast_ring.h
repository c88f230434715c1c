// The ring that the controller writes once for all who read it: all workers, or one client.
//
// A reader copies a record out, notes in memory of its own how far it has come, and checks that the
// record was not written over meanwhile. The writer writes over nothing that one of its readers has
// yet to read; so that can only happen to a process that it counts on no more, and that process
// must not act on it. Peers share no locks, and the writer needs no reader to go on but for room.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/shm/record.h"
#include "runtime/control/shm/ring_memory.h"

namespace lockstep::control {

// RecordHeader::tag of what is for all readers; else it is the slot of the one that it is for.
inline constexpr uint64_t kAllReaders = ~uint64_t{0};

// Threads: one at a time. Ownership: the memory, and that of the readers, is borrowed.
class BroadcastWriter {
 public:
  explicit BroadcastWriter(const BroadcastMemory& memory) : memory_(memory), ring_(memory.ring()) {}

  // From here on it reads; `read` is where it notes how far it has come, and is not trusted.
  // Returns the position of the first record that it is to read.
  uint64_t AddReader(int slot, const std::atomic<uint64_t>* read);
  // It is waited for no more.
  void RemoveReader(int slot);
  bool has_readers() const { return !readers_.empty(); }

  // Larger records are never written to a ring of `capacity` words.
  static uint64_t LargestOf(uint64_t capacity) { return capacity / kLargestPart; }
  // Publishes a record of LargestOf() its capacity at most. False: there is no room before the
  // slowest reader has read more.
  bool Write(RecordKind kind, uint64_t tag, const Message& message);
  // Readers are to tell when there is room for `words`; 0: they need not.
  void AwaitRoom(uint64_t words);
  // Readers that have noted what cannot be: they are waited for no more, and are to be removed.
  // Handed out once. To be asked after each Write().
  std::vector<int> TakeBroken();
  // What `read` is of a reader that has read all.
  uint64_t head() const { return head_; }

 private:
  // One record is no more than this part of a ring, so that others go on meanwhile.
  static constexpr uint64_t kLargestPart = 8;

  struct Reader {
    int slot;
    const std::atomic<uint64_t>* read;
    uint64_t last;  // what it has noted when it was looked at last
  };

  bool HasRoom(uint64_t words);

  const BroadcastMemory memory_;
  WordRing ring_;
  uint64_t head_ = 0;
  uint64_t slowest_ = 0;  // no reader is behind this
  std::vector<Reader> readers_;
  std::vector<int> broken_;
};

// One reader. Threads: one at a time.
class BroadcastReader {
 public:
  // Of `slot`, from `start` on. `read` is memory of its own that the writer sees.
  BroadcastReader(const BroadcastMemory& memory, int slot, uint64_t start,
                  std::atomic<uint64_t>& read);

  enum class Next { kNothing, kMessage, kBySocket };
  // Takes the next record that is for this reader. kDataLoss: it was written over, for the writer
  // does not count on this reader any more; kInvalidArgument: there is no record. After an error
  // nothing can be read any more.
  StatusOr<Next> Take(Message* message);
  // True if a record may be there, which may yet be for others.
  bool HasInput() const;
  // The writer waits for room, and as far as this reader goes it has it.
  bool GivesAwaitedRoom() const;

 private:
  Status CheckNotOvertaken() const;
  void MoveTo(uint64_t position);

  const BroadcastMemory memory_;
  const uint64_t slot_;
  uint64_t position_;
  uint64_t head_;  // as it was seen last
  std::atomic<uint64_t>& read_;
};

}  // namespace lockstep::control
