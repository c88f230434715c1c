#include "runtime/client/prefault.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

// Of Linux 5.14, which the headers may be older than.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace lockstep::client {
namespace {

constexpr size_t kPageBytes = 4096;
// What is known to be mapped or not. Tensors that are smaller are left to their few faults.
constexpr size_t kUnitBytes = size_t{256} << 10;
// Mapped at a time: whoever stops the thread waits for so much, some milliseconds.
constexpr size_t kPieceBytes = size_t{2} << 20;

}  // namespace

Prefault::~Prefault() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void Prefault::Stop() {
  std::lock_guard lock(mutex_);
  waiting_.clear();
  mapped_.clear();
}

void Prefault::Now(const std::shared_ptr<const SharedSegment>& segment, std::byte* memory,
                   size_t size_bytes) {
  std::vector<Piece> pieces;
  {
    std::lock_guard lock(mutex_);
    pieces = TakeUnmapped(segment, memory, size_bytes);
  }
  for (const Piece& piece : pieces) Map(piece);
}

void Prefault::InBackground(const std::shared_ptr<const SharedSegment>& segment, std::byte* memory,
                            size_t size_bytes) {
  std::lock_guard lock(mutex_);
  for (Piece& piece : TakeUnmapped(segment, memory, size_bytes)) {
    waiting_.push_back(std::move(piece));
  }
  if (waiting_.empty() || is_running_) return;
  if (thread_.joinable()) thread_.join();  // it has nothing to do any more
  is_running_ = true;
  thread_ = std::thread([this] { Run(); });
}

std::vector<Prefault::Piece> Prefault::TakeUnmapped(
    const std::shared_ptr<const SharedSegment>& segment, std::byte* memory, size_t size_bytes) {
  std::vector<Piece> pieces;
  if (size_bytes < kUnitBytes || !is_possible_) return pieces;
  std::vector<bool>& mapped = mapped_[segment.get()];
  const auto begin = static_cast<size_t>(memory - segment->data());
  const size_t end = begin + size_bytes;
  mapped.resize(std::max(mapped.size(), (end + kUnitBytes - 1) / kUnitBytes));
  for (size_t unit = begin / kUnitBytes; unit * kUnitBytes < end; ++unit) {
    if (mapped[unit]) continue;
    const size_t from = std::max(begin, unit * kUnitBytes);
    const size_t to = std::min(end, (unit + 1) * kUnitBytes);
    // Only what is mapped as a whole need not be looked at again.
    mapped[unit] = to - from == kUnitBytes;
    Piece* const last = pieces.empty() ? nullptr : &pieces.back();
    const bool continues =
        last != nullptr && last->memory + last->size_bytes == segment->data() + from;
    if (continues && last->size_bytes < kPieceBytes) {
      last->size_bytes += to - from;
    } else {
      pieces.push_back({segment, segment->data() + from, to - from});
    }
  }
  return pieces;
}

void Prefault::Map(const Piece& piece) {
  const auto address = reinterpret_cast<uintptr_t>(piece.memory);
  const uintptr_t first = address / kPageBytes * kPageBytes;
  const size_t size_bytes = address + piece.size_bytes - first;
  if (madvise(reinterpret_cast<void*>(first), size_bytes, MADV_POPULATE_WRITE) == 0) return;
  if (errno != EINVAL) return;
  std::lock_guard lock(mutex_);
  is_possible_ = false;
}

void Prefault::Run() {
  std::unique_lock lock(mutex_);
  while (!waiting_.empty()) {
    const Piece piece = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    Map(piece);
    lock.lock();
  }
  is_running_ = false;
}

}  // namespace lockstep::client
