// Carves blocks out of one contiguous range of bytes and takes them back.
//
// The algorithm is TLSF (Masmano, Ripoll, Crespo, Real: "TLSF: a new dynamic memory allocator for
// real-time systems", ECRTS 2004): free blocks lie in lists by size class, a bitmap finds the first
// list that fits, neighbours that are free are merged at once. Allocating and freeing take constant
// time whatever the history, and a freed block serves requests of any size.
//
// Two things differ from the paper. The bookkeeping lies outside the range, because the range is
// shared memory that may be cold, or another device's. And a request is rounded up to its class, so
// that a block of the same size that was just freed, whose pages are warm, is always found again;
// that costs at most 1/16 of the block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace lockstep::tensor {

// Offsets and sizes are in bytes and multiples of kGranule. Only Extend() adds memory.
//
// Threads: not safe; the owner locks.
class BlockPool {
 public:
  static constexpr size_t kGranule = 64;

  struct Block {
    size_t offset = 0;
    size_t size = 0;
    bool free = false;
    // Neighbours in memory order, free or not; null at the ends.
    Block* before = nullptr;
    Block* after = nullptr;
    // Neighbours in the list of free blocks of this size class.
    Block* previous = nullptr;
    Block* next = nullptr;
  };

  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // The size of the block that a request for `size` bytes gets (at least one granule).
  // `size` is at most 2^47.
  static size_t RoundUp(size_t size);

  // A block of RoundUp(size) bytes, or null if no free block is that large: then Extend() by
  // MissingFor(size) makes it succeed.
  Block* Allocate(size_t size);

  // As Allocate(), but the block is no larger than `size` needs: for the last memory there is,
  // where rounding up to a class would refuse what is there. Takes time in proportion to the free
  // blocks of about this size.
  Block* AllocateTight(size_t size);
  size_t MissingForTight(size_t size) const { return MissingOf(RoundUpToGranule(size)); }

  // The block that Allocate() returned and that holds the byte at `offset`; null if that is free.
  // Takes time in proportion to the number of blocks.
  Block* Find(size_t offset) const;

  // Takes `block`, which Allocate() returned, back.
  void Free(Block* block);

  // Appends `size` bytes (a multiple of kGranule) to the end of the range.
  void Extend(size_t size);

  // How many bytes Extend() has to add at least before Allocate(size) can use the end of the range.
  size_t MissingFor(size_t size) const;

  size_t range_bytes() const { return range_bytes_; }
  size_t live_bytes() const { return live_bytes_; }
  size_t live_blocks() const { return live_blocks_; }

  // Walks over everything and returns false if the structure is damaged. For tests.
  bool CheckConsistency() const;

 private:
  // Below kLinear granules every size is a class; above, each doubling has kLinear classes.
  static constexpr int kLinearBits = 4;
  static constexpr size_t kLinear = size_t{1} << kLinearBits;
  static constexpr int kLevels = 40;

  // Classes are ordered by size: `level` doublings, then `slot` sixteenths.
  struct Class {
    int level;
    int slot;
  };
  static Class ClassOf(size_t size);

  static size_t RoundUpToGranule(size_t size) {
    return size == 0 ? kGranule : (size + kGranule - 1) / kGranule * kGranule;
  }

  Block* FindFree(Class smallest) const;
  // Hands out the first `wanted` bytes of the free block.
  Block* Take(Block* block, size_t wanted);
  size_t MissingOf(size_t wanted) const;
  void InsertFree(Block* block);
  void RemoveFree(Block* block);
  Block* NewBlock();
  void RecycleBlock(Block* block);
  // Makes `block` absorb its neighbour `next` in memory, which is in no free list.
  void Merge(Block* block, Block* next);

  size_t range_bytes_ = 0;
  size_t live_bytes_ = 0;
  size_t live_blocks_ = 0;
  Block* last_ = nullptr;  // the block at the end of the range

  uint64_t levels_ = 0;           // bit l: some class of level l has a free block
  uint16_t slots_[kLevels] = {};  // bit s: class (l, s) has one
  Block* heads_[kLevels][kLinear] = {};

  std::deque<Block> blocks_;   // owns every Block; grows to the most that ever existed
  Block* recycled_ = nullptr;  // Blocks that describe nothing now, linked by `next`
};

}  // namespace lockstep::tensor
