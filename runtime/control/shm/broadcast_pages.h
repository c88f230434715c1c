// Broadcast memory as its writer has it: others can map it to read alone.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/control/shm/descriptor.h"
#include "runtime/control/shm/ring_memory.h"
#include "runtime/control/shm/sealed_memory.h"

namespace lockstep::control {

// Threads: as those who use memory() agree.
class BroadcastPages {
 public:
  // For `slots` readers. kUnavailable: this host has no such memory.
  static StatusOr<std::shared_ptr<BroadcastPages>> Create(int slots, uint64_t capacity_words);
  BroadcastPages(Descriptor descriptor, MappedMemory pages, int slots, uint64_t capacity_words)
      : descriptor_(std::move(descriptor)),
        pages_(std::move(pages)),
        memory_(pages_.data(), slots, capacity_words),
        slots_(slots) {}

  // To be handed to readers.
  const Descriptor& descriptor() const { return descriptor_; }
  const BroadcastMemory& memory() const { return memory_; }
  int slots() const { return slots_; }

 private:
  const Descriptor descriptor_;
  const MappedMemory pages_;
  const BroadcastMemory memory_;
  const int slots_;
};

}  // namespace lockstep::control
