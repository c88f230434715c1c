// Reads messages from a connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/collective/tcp/chunk.h"
#include "runtime/collective/tcp/sealing/cipher.h"

namespace lockstep::collective::tcp {

// Messages come in the order in which they were sent. Small ones that nobody expects yet are laid
// aside, some of them; a larger one waits in the network, with all behind it.
//
// What a SealedWriter has written is read into the same places, and becomes in them, a chunk at a
// time, what was sent: a message counts as come once its last chunk has proved to be what was sent.
// Until then its memory may hold what means nothing, and zeros where something was changed.
//
// Threads: one at a time. Nothing here waits. Ownership: the memory of messages is borrowed until
// they have come, or DropAll().
class ChunkReader {
 public:
  // `cipher` opens what comes; null: it is not sealed.
  explicit ChunkReader(std::unique_ptr<Cipher> cipher = nullptr);

  // Beside what else is expected. Nothing comes of an empty one.
  void Expect(uint64_t tag, void* data, size_t size_bytes);
  bool is_expecting() const { return !expected_.empty(); }
  // More from the network would do something: no message is in front that has to wait.
  bool can_read() const { return !is_over_ && (is_in_chunk_ || !has_header_); }
  // Nothing more comes: the peer has left or ended, or what it says is no message.
  bool is_over() const { return is_over_; }
  // What has come is not what the peer has sealed, or not the next of it.
  bool is_forged() const { return is_forged_; }
  // What the peer has said when it left; none: it has not.
  const std::optional<Status>& leave_reason() const { return leave_reason_; }

  // Reads from `fd`, which does not block, what is there: as far as messages are expected, at least
  // once, and up to some megabytes. True if that was anything.
  bool Read(int fd);
  // Nothing of the messages is touched any more: whatever comes is dropped, but for a leave reason.
  void DropAll();

 private:
  struct Incoming {
    uint64_t tag = 0;
    std::byte* data = nullptr;
    uint64_t left_bytes = 0;
  };

  struct Aside {
    uint64_t tag = 0;
    std::vector<std::byte> bytes;
    bool is_whole = false;
  };

  // One system call. How many bytes have come.
  size_t ReadSome(int fd);
  // Goes on with what was read. False if there is nothing to go on with.
  bool TakeBuffered();
  // Of what was read. False if it is not all there, or forged.
  bool TakeHeader();
  // The same of what is behind a sealed chunk, which is then what was sent.
  bool TakeTag();
  // Of a header that was read: where its chunk belongs. False if it has to wait.
  bool BeginChunk();
  void EndChunk();
  // Gives what was laid aside to who expects it.
  void HandOver(std::list<Incoming>::iterator message, std::list<Aside>::iterator aside);
  std::list<Incoming>::iterator FindExpected(uint64_t tag);
  void AdvanceChunk(size_t bytes);
  bool NoteForged();
  size_t buffered_bytes() const { return buffer_end_ - buffer_begin_; }

  std::unique_ptr<Cipher> cipher_;
  std::list<Incoming> expected_;
  std::list<Aside> asides_;
  bool is_over_ = false;
  bool is_forged_ = false;
  bool drops_all_ = false;
  std::optional<Status> leave_reason_;

  bool has_header_ = false;
  bool is_in_chunk_ = false;  // and then there is a header
  ChunkHeader header_;
  uint64_t chunk_bytes_ = 0;
  uint64_t chunk_left_bytes_ = 0;
  std::byte* chunk_data_ = nullptr;  // where the rest of it goes; null: nowhere
  // Whose chunk it is, where that is an expected message, or one that is laid aside.
  enum class Chunk { kExpected, kAside, kLeave, kDropped };
  Chunk chunk_ = Chunk::kDropped;
  std::list<Incoming>::iterator message_;
  std::list<Aside>::iterator aside_;
  LeaveWords leave_words_;

  // What was read and not yet taken.
  std::vector<std::byte> buffer_;
  size_t buffer_begin_ = 0;
  size_t buffer_end_ = 0;
};

}  // namespace lockstep::collective::tcp
