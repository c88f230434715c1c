// What is logged of messages that are no good: any process that reaches a port can send them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "services/controller/common/clock.h"

namespace lockstep::controller {

// One line for each place that such messages come from, and minute; the next one tells how many
// were left out. Places beyond kMostPlaces count as one.
//
// Threads: one at a time. The clock must outlive it.
class DroppedMessages {
 public:
  static constexpr size_t kMostPlaces = 64;

  explicit DroppedMessages(const Clock& clock) : clock_(clock) {}

  // `what` is wrong with a message from `place`, as ServerChannel::SenderAddress() tells it. The
  // line to log; empty: none.
  std::string Note(const std::string& what, const std::string& place);

 private:
  struct Told {
    TimePoint at;
    uint64_t left_out = 0;
  };

  const Clock& clock_;
  std::map<std::string, Told> told_;  // by place
};

}  // namespace lockstep::controller
