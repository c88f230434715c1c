// Memory that is counted for as long as it is there, once, whoever holds tensors in it.
//
// A plan has one piece of memory for all of its tensors. Registers of its outputs hold some of
// these, also when the plan has been freed, and each keeps all of the memory. So the memory is
// counted by itself, and neither plan nor outputs are counted with what they have of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "runtime/tensor/storage.h"

namespace lockstep::registers {

// Bytes that no register counts. Threads: any; storages may outlive the register file.
using LastingBytes = std::shared_ptr<std::atomic<size_t>>;

// Threads: as any storage.
class LastingStorage final : public tensor::Storage {
 public:
  LastingStorage(std::shared_ptr<Storage> memory, LastingBytes bytes)
      : Storage(memory->data(), memory->size_bytes(), memory->device(), /*is_counted_apart=*/true),
        memory_(std::move(memory)),
        bytes_(std::move(bytes)) {
    bytes_->fetch_add(size_bytes(), std::memory_order_relaxed);
  }
  ~LastingStorage() override {
    memory_.reset();  // first: what is counted less is there to be taken
    bytes_->fetch_sub(size_bytes(), std::memory_order_relaxed);
  }

  bool GoesBackInOrder() const override { return memory_->GoesBackInOrder(); }

 private:
  std::shared_ptr<Storage> memory_;
  const LastingBytes bytes_;
};

}  // namespace lockstep::registers
