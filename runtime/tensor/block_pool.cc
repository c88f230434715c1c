#include "runtime/tensor/block_pool.h"

#include <bit>

namespace lockstep::tensor {

size_t BlockPool::RoundUp(size_t size) {
  const size_t granules = size == 0 ? 1 : (size + kGranule - 1) / kGranule;
  if (granules < kLinear) return granules * kGranule;
  const int shift = std::bit_width(granules) - 1 - kLinearBits;
  const size_t step = size_t{1} << shift;
  return (granules + step - 1) / step * step * kGranule;
}

BlockPool::Class BlockPool::ClassOf(size_t size) {
  const size_t granules = size / kGranule;
  if (granules < kLinear) return {0, static_cast<int>(granules)};
  const int shift = std::bit_width(granules) - 1 - kLinearBits;
  return {shift + 1, static_cast<int>((granules >> shift) - kLinear)};
}

BlockPool::Block* BlockPool::FindFree(Class smallest) const {
  const uint32_t in_level = slots_[smallest.level] & (~uint32_t{0} << smallest.slot);
  if (in_level != 0) return heads_[smallest.level][std::countr_zero(in_level)];
  const uint64_t above = levels_ & (~uint64_t{0} << (smallest.level + 1));
  if (above == 0) return nullptr;
  const int level = std::countr_zero(above);
  return heads_[level][std::countr_zero(slots_[level])];
}

BlockPool::Block* BlockPool::Allocate(size_t size) {
  const size_t wanted = RoundUp(size);
  Block* block = FindFree(ClassOf(wanted));
  return block == nullptr ? nullptr : Take(block, wanted);
}

BlockPool::Block* BlockPool::AllocateTight(size_t size) {
  const size_t wanted = RoundUpToGranule(size);
  // Blocks of this class may be smaller; all of the larger classes are large enough.
  const Class c = ClassOf(wanted);
  Block* block = heads_[c.level][c.slot];
  while (block != nullptr && block->size < wanted) block = block->next;
  if (block == nullptr) block = FindFree(ClassOf(RoundUp(wanted)));
  return block == nullptr ? nullptr : Take(block, wanted);
}

BlockPool::Block* BlockPool::Take(Block* block, size_t wanted) {
  RemoveFree(block);
  if (block->size > wanted) {
    // The front is handed out: it is the part that was used, and is warm, more often.
    Block* rest = NewBlock();
    rest->offset = block->offset + wanted;
    rest->size = block->size - wanted;
    rest->before = block;
    rest->after = block->after;
    (rest->after != nullptr ? rest->after->before : last_) = rest;
    block->after = rest;
    block->size = wanted;
    InsertFree(rest);
  }
  live_bytes_ += wanted;
  ++live_blocks_;
  return block;
}

BlockPool::Block* BlockPool::Find(size_t offset) const {
  if (offset >= range_bytes_) return nullptr;
  Block* block = last_;
  while (block->offset > offset) block = block->before;
  return block->free ? nullptr : block;
}

void BlockPool::Free(Block* block) {
  live_bytes_ -= block->size;
  --live_blocks_;
  if (Block* next = block->after; next != nullptr && next->free) {
    RemoveFree(next);
    Merge(block, next);
  }
  if (Block* previous = block->before; previous != nullptr && previous->free) {
    RemoveFree(previous);
    Merge(previous, block);
    block = previous;
  }
  InsertFree(block);
}

void BlockPool::Extend(size_t size) {
  Block* block = NewBlock();
  block->offset = range_bytes_;
  block->size = size;
  block->before = last_;
  block->after = nullptr;
  if (last_ != nullptr) last_->after = block;
  last_ = block;
  range_bytes_ += size;
  // Free() merges it with a free block at the old end; to it the block was live until now.
  live_bytes_ += size;
  ++live_blocks_;
  Free(block);
}

size_t BlockPool::MissingFor(size_t size) const { return MissingOf(RoundUp(size)); }

size_t BlockPool::MissingOf(size_t wanted) const {
  const size_t have = last_ != nullptr && last_->free ? last_->size : 0;
  return wanted > have ? wanted - have : 0;
}

void BlockPool::InsertFree(Block* block) {
  const Class c = ClassOf(block->size);
  Block*& head = heads_[c.level][c.slot];
  block->free = true;
  block->previous = nullptr;
  block->next = head;
  if (head != nullptr) head->previous = block;
  head = block;
  slots_[c.level] = static_cast<uint16_t>(slots_[c.level] | 1u << c.slot);
  levels_ |= uint64_t{1} << c.level;
}

void BlockPool::RemoveFree(Block* block) {
  block->free = false;
  if (block->next != nullptr) block->next->previous = block->previous;
  if (block->previous != nullptr) {
    block->previous->next = block->next;
    return;
  }
  const Class c = ClassOf(block->size);
  heads_[c.level][c.slot] = block->next;
  if (block->next != nullptr) return;
  slots_[c.level] = static_cast<uint16_t>(slots_[c.level] & ~(1u << c.slot));
  if (slots_[c.level] == 0) levels_ &= ~(uint64_t{1} << c.level);
}

BlockPool::Block* BlockPool::NewBlock() {
  if (recycled_ == nullptr) return &blocks_.emplace_back();
  Block* block = recycled_;
  recycled_ = block->next;
  return block;
}

void BlockPool::RecycleBlock(Block* block) {
  block->next = recycled_;
  recycled_ = block;
}

void BlockPool::Merge(Block* block, Block* next) {
  block->size += next->size;
  block->after = next->after;
  (block->after != nullptr ? block->after->before : last_) = block;
  RecycleBlock(next);
}

bool BlockPool::CheckConsistency() const {
  size_t end = range_bytes_;
  size_t live_bytes = 0;
  size_t live_blocks = 0;
  size_t free_blocks = 0;
  for (const Block* block = last_; block != nullptr; block = block->before) {
    if (block->size == 0 || block->size % kGranule != 0) return false;
    if (block->offset + block->size != end) return false;
    end = block->offset;
    if (block->before != nullptr && block->before->after != block) return false;
    if (block->free) {
      ++free_blocks;
      if (block->before != nullptr && block->before->free) return false;
    } else {
      ++live_blocks;
      live_bytes += block->size;
    }
  }
  size_t listed_blocks = 0;
  for (int level = 0; level < kLevels; ++level) {
    if ((levels_ >> level & 1) != (slots_[level] != 0)) return false;
    for (int slot = 0; slot < static_cast<int>(kLinear); ++slot) {
      if ((slots_[level] >> slot & 1) != (heads_[level][slot] != nullptr)) return false;
      for (const Block* block = heads_[level][slot]; block != nullptr; block = block->next) {
        const Class c = ClassOf(block->size);
        if (!block->free || c.level != level || c.slot != slot) return false;
        ++listed_blocks;
      }
    }
  }
  return end == 0 && live_bytes == live_bytes_ && live_blocks == live_blocks_ &&
         free_blocks == listed_blocks;
}

}  // namespace lockstep::tensor
