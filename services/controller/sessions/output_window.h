// How much of what functions print may be on its way to one client.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "runtime/base/ids.h"

namespace lockstep::controller {

// Positions count what the client was told, in bytes; the client says how far it has come. Of what
// goes beyond the window the lines are counted, by rank, and dropped.
//
// Threads: one at a time.
class OutputWindow {
 public:
  static constexpr uint64_t kBytes = uint64_t{4} << 20;
  // Besides its lines, every message counts for as much.
  static constexpr uint64_t kBytesPerMessage = 256;

  // Takes so many bytes of lines in; false: there is no room for them.
  bool Admit(size_t line_bytes) {
    const uint64_t cost = line_bytes + kBytesPerMessage;
    if (position_ + cost - taken_ > kBytes) return false;
    position_ += cost;
    return true;
  }
  // Of the message that was admitted last.
  uint64_t position() const { return position_; }

  // The client has dealt with everything up to there.
  void Take(uint64_t position) { taken_ = std::clamp(position, taken_, position_); }
  // What is on its way may be lost.
  void Forget() { taken_ = position_; }

  void Drop(Rank rank, uint64_t lines) { dropped_[rank] += lines; }
  // How many were, since this was last asked.
  uint64_t TakeDropped(Rank rank) {
    const auto found = dropped_.find(rank);
    if (found == dropped_.end()) return 0;
    const uint64_t lines = found->second;
    dropped_.erase(found);
    return lines;
  }
  const std::map<Rank, uint64_t>& dropped() const { return dropped_; }

 private:
  uint64_t position_ = 0;
  uint64_t taken_ = 0;
  std::map<Rank, uint64_t> dropped_;
};

}  // namespace lockstep::controller
