// Writes messages to a connection so that only its other end can read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "runtime/collective/tcp/chunk.h"
#include "runtime/collective/tcp/message_writer.h"
#include "runtime/collective/tcp/sealing/cipher.h"

namespace lockstep::collective::tcp {

// A chunk's header and its data are sealed as a piece each. What is sealed lies here until the
// network has taken it: so a chunk that was begun can be sent to its end after its message was
// forgotten, and a rank that gives up can always say why.
class SealedWriter final : public MessageWriter {
 public:
  explicit SealedWriter(std::unique_ptr<Cipher> cipher) : cipher_(std::move(cipher)) {}

  void Add(uint64_t tag, const void* data, size_t size_bytes) override {
    if (size_bytes == 0) return;
    messages_.push_back({tag, static_cast<const std::byte*>(data), size_bytes});
  }
  bool is_busy() const override { return !is_broken_ && has_messages(); }
  bool has_messages() const override { return !messages_.empty() || sealed_begin_ < sealed_end_; }
  bool is_broken() const override { return is_broken_; }

  bool Write(int fd) override;
  void Forget() override { messages_.clear(); }
  void AddFarewell(const Status& why) override;

 private:
  struct Outgoing {
    uint64_t tag = 0;
    const std::byte* data = nullptr;
    uint64_t left_bytes = 0;
  };

  // Seals what goes out next: one chunk of what is long, several of what is short.
  bool SealNext();
  // Room for so many more bytes behind what is sealed.
  std::byte* Extend(size_t size_bytes);

  const std::unique_ptr<Cipher> cipher_;
  std::deque<Outgoing> messages_;
  // What is sealed, of which the network has taken what is before `sealed_begin_`.
  std::unique_ptr<std::byte[]> sealed_;
  size_t capacity_bytes_ = 0;
  size_t sealed_begin_ = 0;
  size_t sealed_end_ = 0;
  LeaveWords leave_words_;
  bool is_broken_ = false;
};

}  // namespace lockstep::collective::tcp
