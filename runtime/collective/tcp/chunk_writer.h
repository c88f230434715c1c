// Writes messages to a connection, as they are.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/collective/tcp/message_writer.h"

namespace lockstep::collective::tcp {

class ChunkWriter final : public MessageWriter {
 public:
  void Add(uint64_t tag, const void* data, size_t size_bytes) override {
    if (size_bytes == 0) return;
    messages_.push_back({tag, static_cast<const std::byte*>(data), size_bytes});
  }
  bool is_busy() const override { return !is_broken_ && !(messages_.empty() && farewell_.empty()); }
  bool has_messages() const override { return !messages_.empty(); }
  bool is_broken() const override { return is_broken_; }

  bool Write(int fd) override;
  void Forget() override;
  // It is left out where the peer would take it for the rest of a message.
  void AddFarewell(const Status& why) override;

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
