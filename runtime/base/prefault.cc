#include "runtime/base/prefault.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "runtime/base/resources.h"

// Of Linux 5.14, which the headers may be older than.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace lockstep {
namespace {

// Whose pages are known by one number. Tensors that are smaller are left to their few faults.
constexpr size_t kUnitBytes = size_t{256} << 10;
constexpr size_t kMostPages = 64;  // of a unit, which has fewer where pages are larger
// Mapped at a time: whoever stops the thread waits for so much, some milliseconds.
constexpr size_t kPieceBytes = size_t{2} << 20;

size_t PageBytes() {
  static const size_t bytes =
      std::max(kUnitBytes / kMostPages, static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  return bytes;
}

// The pages that hold bytes [from, to) of a unit, one bit each.
uint64_t PagesOf(size_t from, size_t to) {
  const size_t first = from / PageBytes();
  const size_t count = (to + PageBytes() - 1) / PageBytes() - first;
  return (count >= kMostPages ? ~uint64_t{0} : (uint64_t{1} << count) - 1) << first;
}

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
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    // The process may have no more: then pages are mapped as they are used.
    is_running_ = false;
    waiting_.clear();
  }
}

std::vector<Prefault::Piece> Prefault::TakeUnmapped(
    const std::shared_ptr<const SharedSegment>& segment, std::byte* memory, size_t size_bytes) {
  std::vector<Piece> pieces;
  if (size_bytes < kUnitBytes || !is_possible_) return pieces;
  std::vector<uint64_t>& mapped = mapped_[segment.get()];
  const auto begin = static_cast<size_t>(memory - segment->data());
  const size_t end = begin + size_bytes;
  mapped.resize(std::max(mapped.size(), (end + kUnitBytes - 1) / kUnitBytes));
  for (size_t unit = begin / kUnitBytes; unit * kUnitBytes < end; ++unit) {
    const size_t from = std::max(begin, unit * kUnitBytes);
    const size_t to = std::min(end, (unit + 1) * kUnitBytes);
    const uint64_t pages = PagesOf(from - unit * kUnitBytes, to - unit * kUnitBytes);
    if ((pages & ~mapped[unit]) == 0) continue;
    mapped[unit] |= pages;
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
  const uintptr_t first = address / PageBytes() * PageBytes();
  const size_t size_bytes = address + piece.size_bytes - first;
  if (madvise(reinterpret_cast<void*>(first), size_bytes, MADV_POPULATE_WRITE) == 0) return;
  if (errno != EINVAL) return;
  std::lock_guard lock(mutex_);
  is_possible_ = false;
}

void Prefault::Run() {
  LowerThreadPriority();  // new pages are cleared as they are mapped, which takes long
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

}  // namespace lockstep
