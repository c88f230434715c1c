#include "tests/fakes/cuda/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace lockstep::fake_cuda {
namespace {

constexpr size_t kAlignment = 512;
constexpr int kFreed = 0xDB;

void* MapOrDie(void* where, size_t size_bytes, int protection, int flags, int file) {
  void* const address = mmap(where, size_bytes, protection, flags | MAP_NORESERVE, file, 0);
  if (address == MAP_FAILED) {
    std::perror("fake libcuda: mmap");
    std::abort();
  }
  return address;
}

std::byte* Map(int file, size_t size_bytes) {
  return static_cast<std::byte*>(
      MapOrDie(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file));
}

// An address space of its own, in the middle of which are addresses whose lower halves are no small
// numbers, of either sign: a kernel's int, with anything in the padding behind it, is none of them.
std::byte* MapAsDevice(int file, size_t size_bytes) {
  constexpr size_t kWindow = size_t{1} << 32;
  auto* const reserved = static_cast<std::byte*>(
      MapOrDie(nullptr, 2 * kWindow, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1));
  const size_t to_window = kWindow - reinterpret_cast<uintptr_t>(reserved) % kWindow;
  if (size_bytes > kWindow / 2) {
    std::fputs("fake libcuda: at most 2 GiB can be had (FAKE_CUDA_MEMORY_MIB)\n", stderr);
    std::abort();
  }
  return static_cast<std::byte*>(MapOrDie(reserved + to_window + kWindow / 4, size_bytes, PROT_NONE,
                                          MAP_SHARED | MAP_FIXED, file));
}

}  // namespace

Memory::Memory(size_t size_bytes) : size_bytes_(size_bytes) {
  const int file = memfd_create("fake-gpu", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size_bytes)) != 0) {
    std::perror("fake libcuda: memfd");
    std::abort();
  }
  device_view_ = MapAsDevice(file, size_bytes);
  host_view_ = Map(file, size_bytes);
  close(file);
  free_[0] = size_bytes;
}

void* Memory::Allocate(size_t size_bytes) {
  const size_t wanted =
      (std::max<size_t>(size_bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(free_.begin(), free_.end(),
                                  [&](const auto& piece) { return piece.second >= wanted; });
  if (found == free_.end()) return nullptr;
  const auto [offset, size] = *found;
  free_.erase(found);
  if (size > wanted) free_[offset + wanted] = size - wanted;
  allocated_[offset] = wanted;
  allocated_bytes_ += wanted;
  return device_view_ + offset;
}

bool Memory::Free(void* address) {
  if (!Contains(address)) return false;
  const auto offset = static_cast<size_t>(static_cast<std::byte*>(address) - device_view_);
  std::lock_guard lock(mutex_);
  const auto found = allocated_.find(offset);
  if (found == allocated_.end()) return false;
  size_t size = found->second;
  allocated_.erase(found);
  allocated_bytes_ -= size;
  std::memset(host_view_ + offset, kFreed, size);
  auto after = free_.lower_bound(offset);
  if (after != free_.end() && after->first == offset + size) {
    size += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += size;
      return true;
    }
  }
  free_[offset] = size;
  return true;
}

size_t Memory::allocated_bytes() const {
  std::lock_guard lock(mutex_);
  return allocated_bytes_;
}

}  // namespace lockstep::fake_cuda
