// How much of a session may be on its way: what keeps every queue between client and workers
// bounded.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::client {

// Counts what was sent, and what the slowest worker has consumed. Units: FlowCost of
// runtime/control/ batch.h, in bytes.
//
// Threads: one at a time.
class FlowWindow {
 public:
  // `sent` bytes were sent before, by somebody else, and are taken for consumed.
  explicit FlowWindow(uint64_t window_bytes, uint64_t sent = 0)
      : window_(window_bytes), sent_(sent), consumed_(sent) {}

  // True if another command may join the `open` bytes that are yet to be sent. What is on its way
  // thus exceeds the window by less than one batch, and a batch larger than the window can be sent.
  // (Workers report what they consumed every eighth of the window; up to that much stays unreported
  // for ever.)
  bool HasRoom(uint64_t open) const { return sent_ - consumed_ + open < window_; }
  void Sent(uint64_t cost) { sent_ += cost; }
  uint64_t sent() const { return sent_; }
  // Reports of several workers may overtake each other, but never what was sent.
  void Consumed(uint64_t total) { consumed_ = std::max(consumed_, std::min(total, sent_)); }

 private:
  uint64_t window_;
  uint64_t sent_;
  uint64_t consumed_;
};

}  // namespace lockstep::client
