// Writes messages to a connection.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/collective/tcp/chunk.h"

namespace lockstep::collective::tcp {

// Threads: one at a time. Nothing here waits. Ownership: the memory of messages is borrowed until
// they are sent, or Forget().
class ChunkWriter {
 public:
  // Behind what is being sent. Nothing is sent of an empty one.
  void Add(uint64_t tag, const void* data, size_t size_bytes) {
    if (size_bytes == 0) return;
    messages_.push_back({tag, static_cast<const std::byte*>(data), size_bytes});
  }
  // Something is to be sent, and can be.
  bool is_busy() const { return !is_broken_ && !(messages_.empty() && farewell_.empty()); }
  bool has_messages() const { return !messages_.empty(); }
  // The connection takes nothing any more.
  bool is_broken() const { return is_broken_; }

  // Writes to `fd`, which does not block, what it takes, up to some megabytes. True if that was
  // anything.
  bool Write(int fd);
  // Nothing of the messages is touched any more.
  void Forget();
  // Only this is still to be sent: that the rank leaves, and why. It is left out where the peer
  // would take it for the rest of a message. After Forget(), or when all is sent.
  void AddFarewell(const Status& why);

 private:
  struct Outgoing {
    uint64_t tag = 0;
    const std::byte* data = nullptr;
    uint64_t size_bytes = 0;
    uint64_t sent_bytes = 0;         // of its data
    uint64_t header_sent_bytes = 0;  // of the header of the chunk under way
  };

  // How many bytes were taken: 0 if none can be now.
  size_t WriteMessages(int fd);
  void NoteSent(size_t bytes);
  // How much of `parts` was taken.
  size_t WriteParts(int fd, iovec* parts, int count);

  std::deque<Outgoing> messages_;
  // Of the chunk that was under way when all messages were forgotten: how much was not sent, and
  // whether its message would have gone on.
  uint64_t cut_bytes_ = 0;
  bool cut_message_goes_on_ = true;
  std::vector<std::byte> farewell_;
  size_t farewell_sent_ = 0;
  bool is_broken_ = false;
};

}  // namespace lockstep::collective::tcp
