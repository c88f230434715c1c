// What was used last, within bounds: what is beyond them goes, and what was not used for longest
// goes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <list>
#include <utility>

namespace lockstep::plan {

// What a cache has done so far, and what it holds.
struct CacheUse {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t evictions = 0;  // for want of room
  size_t entries = 0;
  size_t bytes = 0;
};

// Entries are found by looking at one after the other: it is for some hundred at most. What is done
// follows from the calls alone, so two of them that are called alike hold the same.
//
// Threads: one at a time.
template <typename Entry>
class RecentlyUsed {
 public:
  struct Bounds {
    size_t entries = 0;
    size_t bytes = std::numeric_limits<size_t>::max();
  };
  explicit RecentlyUsed(Bounds bounds) : bounds_(bounds) {}

  // The entry of which `is_wanted` is true, or null. Valid until the next Add(), Remove() or
  // Clear().
  template <typename IsWanted>
  const Entry* Find(IsWanted is_wanted) const {
    for (const Sized& sized : entries_) {
      if (is_wanted(sized.entry)) return &sized.entry;
    }
    return nullptr;
  }

  // The same, and it is the one that was used last. Counts a hit or a miss.
  template <typename IsWanted>
  const Entry* Use(IsWanted is_wanted) {
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
      if (!is_wanted(at->entry)) continue;
      entries_.splice(entries_.begin(), entries_, at);
      ++use_.hits;
      return &at->entry;
    }
    ++use_.misses;
    return nullptr;
  }

  // It is the one that was used last. One that is beyond the bounds by itself is not kept.
  void Add(Entry entry, size_t bytes) {
    if (bytes > bounds_.bytes) return;
    entries_.push_front({std::move(entry), bytes});
    ++use_.entries;
    use_.bytes += bytes;
    while (use_.entries > bounds_.entries || use_.bytes > bounds_.bytes) {
      Drop(std::prev(entries_.end()));
      ++use_.evictions;
    }
  }

  // Those of which `is_wanted` is true.
  template <typename IsWanted>
  void Remove(IsWanted is_wanted) {
    for (auto at = entries_.begin(); at != entries_.end();) {
      const auto next = std::next(at);
      if (is_wanted(at->entry)) Drop(at);
      at = next;
    }
  }

  void Clear() {
    entries_.clear();
    use_.entries = use_.bytes = 0;
  }

  const CacheUse& use() const { return use_; }

 private:
  struct Sized {
    Entry entry;
    size_t bytes = 0;
  };

  void Drop(typename std::list<Sized>::iterator at) {
    --use_.entries;
    use_.bytes -= at->bytes;
    entries_.erase(at);
  }

  const Bounds bounds_;
  std::list<Sized> entries_;  // the one that was used last is in front
  CacheUse use_;
};

}  // namespace lockstep::plan
