#include "runtime/control/shm/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::control {
namespace {

// Newer than the distribution's headers; see fcntl(2).
constexpr int kSealFutureWrites = 0x0010;
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

Status MemoryError(const char* what) { return Unavailable(what, ": ", std::strerror(errno)); }

}  // namespace

StatusOr<Descriptor> CreateMemory(size_t size_bytes) {
  // The name is for people, in /proc/<pid>/maps.
  Descriptor memory(memfd_create("lockstep-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.is_open()) return MemoryError("cannot make shared memory without a name");
  if (ftruncate(memory.get(), static_cast<off_t>(size_bytes)) != 0 ||
      fcntl(memory.get(), F_ADD_SEALS, kSizeSeals) != 0) {
    return MemoryError("cannot give shared memory its size");
  }
  return memory;
}

Status SealWrites(const Descriptor& memory) {
  if (fcntl(memory.get(), F_ADD_SEALS, kSealFutureWrites | F_SEAL_SEAL) == 0) return OkStatus();
  return MemoryError("cannot keep others from writing to shared memory");
}

StatusOr<MappedMemory> MappedMemory::Map(const Descriptor& memory, size_t size_bytes,
                                         Access access) {
  struct stat facts = {};
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  if (fstat(memory.get(), &facts) != 0 || facts.st_size != static_cast<off_t>(size_bytes) ||
      seals < 0 || (seals & kSizeSeals) != kSizeSeals) {
    return InvalidArgument("a descriptor is none of sealed memory of ", size_bytes, " bytes");
  }
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const data = mmap(nullptr, size_bytes, protection, MAP_SHARED, memory.get(), 0);
  if (data == MAP_FAILED) return MemoryError("cannot map shared memory");
  return MappedMemory(static_cast<std::byte*>(data), size_bytes);
}

MappedMemory::MappedMemory(MappedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_bytes_(other.size_bytes_) {}

MappedMemory& MappedMemory::operator=(MappedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

MappedMemory::~MappedMemory() {
  if (data_ != nullptr) munmap(data_, size_bytes_);
}

}  // namespace lockstep::control
