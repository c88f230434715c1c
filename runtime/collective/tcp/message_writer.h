// Writes messages to a connection: the way that both kinds of connections have in common.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/status.h"

namespace lockstep::collective::tcp {

// Threads: one at a time. Nothing here waits. Ownership: the memory of messages is borrowed until
// they are sent, or Forget().
class MessageWriter {
 public:
  virtual ~MessageWriter() = default;

  // Behind what is being sent. Nothing is sent of an empty one.
  virtual void Add(uint64_t tag, const void* data, size_t size_bytes) = 0;
  // Something is to be sent, and can be.
  virtual bool is_busy() const = 0;
  // Something of a message is not sent.
  virtual bool has_messages() const = 0;
  // The connection takes nothing any more.
  virtual bool is_broken() const = 0;

  // Writes to `fd`, which does not block, what it takes, up to some megabytes. True if that was
  // anything.
  virtual bool Write(int fd) = 0;
  // Nothing of the messages is touched any more.
  virtual void Forget() = 0;
  // Only this is still to be sent: that the rank leaves, and why. After Forget(), or when all is
  // sent.
  virtual void AddFarewell(const Status& why) = 0;
};

}  // namespace lockstep::collective::tcp
