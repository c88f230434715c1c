// What the controller takes from the ring of a worker: an input is what the worker does to it, in
// pieces. Each is by how many words the ring grows (2 bytes, signed, little-endian), how many bytes
// follow (2 bytes), and these, which are written where the ring ended.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/control/shm/answer_ring.h"
#include "runtime/control/shm/ring_memory.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {
namespace {

constexpr uint64_t kWords = 64;

uint16_t TakeTwoBytes(const uint8_t*& data, size_t& size) {
  uint16_t value = 0;
  const size_t count = std::min(size, sizeof value);
  std::memcpy(&value, data, count);
  data += count;
  size -= count;
  return value;
}

}  // namespace

void TakeAnswersByRing(const uint8_t* data, size_t size) {
  const size_t size_bytes = control::AnswerMemory::SizeBytes(kWords);
  const std::unique_ptr<std::byte, decltype(&std::free)> pages(
      static_cast<std::byte*>(
          std::aligned_alloc(control::kRingPageBytes, 2 * control::kRingPageBytes)),
      &std::free);
  static_assert(control::kRingPageBytes >= kWords * control::kRingWordBytes);
  std::memset(pages.get(), 0, size_bytes);
  const control::AnswerMemory memory(pages.get(), kWords);
  control::WordRing ring = memory.ring();
  std::atomic<uint64_t> taken{0};
  control::AnswerReader reader(memory, taken);
  uint64_t end = 0;
  while (size > 0) {
    // Signed: a hostile peer may also go back.
    const auto further = static_cast<int16_t>(TakeTwoBytes(data, size));
    const size_t fresh =
        std::min<size_t>({TakeTwoBytes(data, size), size, kWords * control::kRingWordBytes});
    ring.Write(end, reinterpret_cast<const std::byte*>(data), fresh);
    data += fresh;
    size -= fresh;
    end += static_cast<uint64_t>(int64_t{further});
    memory.header().head.store(end);
    while (true) {
      uint64_t number = 0;
      control::Message message;
      const StatusOr<bool> got = reader.Take(&number, &message);
      // After an error nothing more is taken from a peer.
      if (!got.ok()) return;
      if (!*got) break;
      std::vector<std::byte> copied;
      for (const control::Frame& frame : message) {
        copied.insert(copied.end(), frame.data(), frame.data() + frame.size());
      }
      if (copied.size() > kWords * control::kRingWordBytes) std::abort();
    }
  }
}

}  // namespace lockstep::fuzz
