// Memory that is counted for as long as it is there, and not only while its owner is.
//
// A plan is counted with all of its memory, in its register. When that is freed, registers of its
// outputs may still hold tensors there, each of which is counted with its own bytes alone, and
// keeps all of the memory. So from then on the memory counts by itself, until the last has gone.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "runtime/tensor/storage.h"

namespace lockstep::registers {

// Bytes that no register counts any more. Threads: any; storages may outlive the register file.
using LastingBytes = std::shared_ptr<std::atomic<size_t>>;

// Threads: as any storage; OwnerIsGone() once, by the owner.
class LastingStorage final : public tensor::Storage {
 public:
  LastingStorage(std::shared_ptr<Storage> memory, LastingBytes bytes)
      : Storage(memory->data(), memory->size_bytes(), memory->device()),
        memory_(std::move(memory)),
        bytes_(std::move(bytes)) {}
  ~LastingStorage() override {
    memory_.reset();  // first: what is counted less is there to be taken
    if (counts_) bytes_->fetch_sub(size_bytes(), std::memory_order_relaxed);
  }

  bool GoesBackInOrder() const override { return memory_->GoesBackInOrder(); }

  // What has counted it so far, and holds it still, will not any more.
  void OwnerIsGone() {
    counts_ = true;
    bytes_->fetch_add(size_bytes(), std::memory_order_relaxed);
  }

 private:
  std::shared_ptr<Storage> memory_;
  const LastingBytes bytes_;
  bool counts_ = false;
};

}  // namespace lockstep::registers
