// Calls that a session's workers have been sent, and keep: its client makes them again by their
// numbers.
//
// Client and workers each have one, and add each call that is new, in the order of the commands: so
// they give the same numbers, and forget at the same time. Like programs (runtime/plan's
// KnownPrograms) it lives for one generation of the session, and for one client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep::fragment {

// Threads: one at a time.
template <typename Call>
class KnownCalls {
 public:
  // Of one session; bytes as they are sent (call_codec.h). A call may have half of that.
  static constexpr size_t kMostCalls = 256;
  static constexpr size_t kMostBytes = size_t{8} << 20;

  // Null: there is none of that number. Valid until the next call that is not const.
  const Call* Find(uint32_t number) const {
    return number < calls_.size() ? &calls_[number] : nullptr;
  }
  // What Add() would return.
  uint32_t NumberOfNext(size_t bytes) const {
    return HasRoom(bytes) ? static_cast<uint32_t>(calls_.size()) : 0;
  }
  // Returns its number. Where there is no room, all others are forgotten before: a program that
  // makes so many is not slowed down much by sending some of them again.
  uint32_t Add(Call call, size_t bytes) {
    if (!HasRoom(bytes)) Clear();
    bytes_ += bytes;
    calls_.push_back(std::move(call));
    return static_cast<uint32_t>(calls_.size() - 1);
  }
  void Clear() {
    calls_.clear();
    bytes_ = 0;
  }

  size_t bytes() const { return bytes_; }

 private:
  bool HasRoom(size_t bytes) const {
    return calls_.size() < kMostCalls && bytes_ + bytes <= kMostBytes;
  }

  std::vector<Call> calls_;
  size_t bytes_ = 0;
};

}  // namespace lockstep::fragment
