// How the clock of one process compares with another's, and one time for all.
//
// Processes of one host read one clock; others are compared by round trips, as NTP does: of several
// samples that with the least round trip is taken, for least can have gone wrong in it. Two
// samples, at the beginning and at the end, tell how fast the clocks drift apart between them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::trace {

// All in nanoseconds.
struct ClockSample {
  int64_t at = 0;           // by one's own clock
  int64_t offset = 0;       // the reference's time is one's own plus this, ...
  int64_t uncertainty = 0;  // ... give or take this

  bool operator==(const ClockSample&) const = default;
};

// Threads: one at a time.
class ClockComparison {
 public:
  // RFC 5905, section 8: one's own clock when the question was sent, the reference's when it came
  // and when the answer was sent, one's own when that came. What cannot be so is ignored.
  void Add(int64_t asked, int64_t received, int64_t answered, int64_t heard);

  int count() const { return count_; }
  // The sample with the least round trip; none before the first.
  std::optional<ClockSample> best() const { return best_; }

 private:
  int count_ = 0;
  std::optional<ClockSample> best_;
};

// What a process has said of its clock.
struct ClockReport {
  std::string host_id;               // equal for processes that read the same clock
  std::vector<ClockSample> samples;  // in order of their times; none: nothing is known
};

// From one's own time to the reference's.
class ClockLine {
 public:
  ClockLine() = default;
  // Of one sample, or two in order of their times. Between them the offset changes evenly; before
  // and after, not at all.
  explicit ClockLine(const std::vector<ClockSample>& samples);

  int64_t ToReference(int64_t own) const;
  // Of the worst sample.
  int64_t uncertainty() const { return uncertainty_; }
  bool is_known() const { return !samples_.empty(); }

 private:
  std::vector<ClockSample> samples_;
  int64_t uncertainty_ = 0;
};

// A line for each process. Those of one host have the same clock, so that the best sample among
// them serves all whose own does not contradict it: the order of what they did is exact then. (It
// may contradict where containers of one host have clocks of their own.)
std::vector<ClockLine> AlignClocks(const std::vector<ClockReport>& reports);

}  // namespace lockstep::trace
