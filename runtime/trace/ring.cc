#include "runtime/trace/ring.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <type_traits>

namespace lockstep::trace {

static_assert(std::is_trivially_copyable_v<Event>);

void Ring::Add(const Event& event) {
  // Either this sees that it was stopped, or Stop() sees this: both orders are one (seq_cst).
  adding_.store(true, std::memory_order_seq_cst);
  if (on_.load(std::memory_order_seq_cst)) {
    std::memcpy(events_.get() + added_ % capacity_ * sizeof(Event), &event, sizeof(Event));
    ++added_;
  }
  adding_.store(false, std::memory_order_release);
}

void Ring::Start(size_t capacity) {
  Stop();
  capacity_ = std::max<size_t>(capacity, 1);
  events_ = std::make_unique_for_overwrite<std::byte[]>(capacity_ * sizeof(Event));
  added_ = 0;
  started_ = Now();
  on_.store(true, std::memory_order_seq_cst);
}

void Ring::Stop() {
  on_.store(false, std::memory_order_seq_cst);
  while (adding_.load(std::memory_order_seq_cst)) std::this_thread::yield();
}

void Ring::Clear() {
  Stop();
  events_.reset();
  capacity_ = 0;
  added_ = 0;
}

size_t Ring::size() const { return static_cast<size_t>(std::min<uint64_t>(added_, capacity_)); }

Event Ring::at(size_t index) const {
  Event event;
  std::memcpy(&event, events_.get() + (added_ - size() + index) % capacity_ * sizeof(Event),
              sizeof(Event));
  return event;
}

}  // namespace lockstep::trace
