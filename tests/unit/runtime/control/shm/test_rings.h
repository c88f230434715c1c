// Rings in memory of the test's own, and messages that show whether they are whole.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "runtime/control/shm/answer_ring.h"
#include "runtime/control/shm/broadcast_ring.h"
#include "runtime/control/shm/ring_memory.h"

namespace lockstep::control {

// Zeroed pages.
class TestPages {
 public:
  explicit TestPages(size_t size_bytes)
      : bytes_(static_cast<std::byte*>(std::aligned_alloc(
            kRingPageBytes, (size_bytes + kRingPageBytes - 1) / kRingPageBytes * kRingPageBytes))) {
    std::memset(bytes_.get(), 0, size_bytes);
  }
  std::byte* data() const { return bytes_.get(); }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

// One that holds `number`, in two frames whose sizes depend on it.
inline Message Numbered(uint64_t number) {
  const std::string tail(number % 97, static_cast<char>('a' + number % 26));
  return {Frame::Copy(&number, sizeof number), Frame::Copy(tail.data(), tail.size())};
}
// Its number; ~0 if it is not what Numbered() makes.
inline uint64_t NumberOf(const Message& message) {
  if (message.size() != 2 || message[0].size() != sizeof(uint64_t)) return ~uint64_t{0};
  uint64_t number = 0;
  std::memcpy(&number, message[0].data(), sizeof number);
  const Message whole = Numbered(number);
  const bool same = whole[1].size() == message[1].size() &&
                    std::memcmp(whole[1].data(), message[1].data(), message[1].size()) == 0;
  return same ? number : ~uint64_t{0};
}

// More than a ring takes of one message.
inline constexpr size_t kLargeBytes = 1 << 20;

inline Message Text(const std::string& text) { return {Frame::Copy(text.data(), text.size())}; }
inline std::string TextOf(const Message& message) {
  if (message.empty()) return "";
  return std::string(reinterpret_cast<const char*>(message[0].data()), message[0].size());
}
inline Message Large(char letter) { return Text(std::string(kLargeBytes, letter)); }

}  // namespace lockstep::control
