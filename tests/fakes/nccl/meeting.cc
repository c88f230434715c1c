#include "tests/fakes/nccl/meeting.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

namespace lockstep::fake_nccl {

size_t Channel::Write(const std::byte* from, size_t size_bytes) {
  const uint64_t end = written.load(std::memory_order_relaxed);
  const uint64_t room = kBytes - (end - read.load(std::memory_order_acquire));
  const size_t size = std::min<uint64_t>({size_bytes, room, kBytes - end % kBytes});
  if (size > 0) std::memcpy(ring + end % kBytes, from, size);
  written.store(end + size, std::memory_order_release);
  return size;
}

size_t Channel::Read(std::byte* to, size_t size_bytes) {
  const uint64_t begin = read.load(std::memory_order_relaxed);
  const uint64_t there = written.load(std::memory_order_acquire) - begin;
  const size_t size = std::min<uint64_t>({size_bytes, there, kBytes - begin % kBytes});
  if (size > 0) std::memcpy(to, ring + begin % kBytes, size);
  read.store(begin + size, std::memory_order_release);
  return size;
}

Meeting::Meeting(const std::string& name, int rank, int size)
    : name_(name), rank_(rank), size_(size) {
  const int file = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) {
    std::perror("fake libnccl: shm_open");
    std::abort();
  }
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) {
    std::perror("fake libnccl: mmap");
    std::abort();
  }
  // All zeros at first, which is what it begins as.
  shared_ = static_cast<Shared*>(memory);
  if (shared_->came.fetch_add(1) + 1 == size) shm_unlink(name.c_str());
}

Meeting::~Meeting() {
  if (!AllAreHere()) shm_unlink(name_.c_str());
  munmap(shared_, sizeof(Shared));
}

bool Meeting::AllAreHere() const { return shared_->came.load() >= size_; }

void Meeting::End() {
  ended_ = true;
  shared_->has_ended[rank_] = true;
}

bool Meeting::IsFlushed() const {
  for (int r = 0; r < size_; ++r) {
    const Channel& out = shared_->channels[rank_][r];
    if (r != rank_ && out.written != out.read && !shared_->has_ended[r]) return false;
  }
  return true;
}

bool Meeting::Run(std::vector<Transfer> transfers) {
  while (true) {
    bool all_done = true;
    bool moved = false;
    std::set<std::pair<const void*, bool>> busy;  // ends of channels whose turn another has
    for (Transfer& transfer : transfers) {
      if (transfer.size_bytes == 0) continue;
      all_done = false;
      if (!busy.insert({transfer.channel, transfer.is_send}).second) continue;
      const size_t size = transfer.is_send
                              ? transfer.channel->Write(transfer.memory, transfer.size_bytes)
                              : transfer.channel->Read(transfer.memory, transfer.size_bytes);
      transfer.memory += size;
      transfer.size_bytes -= size;
      moved |= size > 0;
    }
    if (all_done) return true;
    if (ended_) return false;
    if (!moved) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

}  // namespace lockstep::fake_nccl
