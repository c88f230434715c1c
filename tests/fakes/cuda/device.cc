#include "tests/fakes/cuda/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace lockstep::fake_cuda {
namespace {

constexpr size_t kAlignment = 512;
constexpr int kFreed = 0xDB;

std::byte* Map(int file, size_t size_bytes, int protection) {
  void* const address = mmap(nullptr, size_bytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (address == MAP_FAILED) {
    std::perror("fake libcuda: mmap");
    std::abort();
  }
  return static_cast<std::byte*>(address);
}

}  // namespace

Memory::Memory(size_t size_bytes) : size_bytes_(size_bytes) {
  const int file = memfd_create("fake-gpu", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size_bytes)) != 0) {
    std::perror("fake libcuda: memfd");
    std::abort();
  }
  device_view_ = Map(file, size_bytes, PROT_NONE);
  host_view_ = Map(file, size_bytes, PROT_READ | PROT_WRITE);
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
