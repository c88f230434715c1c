#include "runtime/trace/clock.h"

#include <algorithm>
#include <cstdlib>

namespace lockstep::trace {
namespace {

// Beyond 36 years from 0 is no steady clock; and sums of such times do not overflow.
constexpr int64_t kFurthest = int64_t{1} << 60;

bool IsPlausible(int64_t time) { return time > -kFurthest && time < kFurthest; }

// Two measurements of one clock can both be true.
bool Agree(const ClockSample& a, const ClockSample& b) {
  return std::abs(a.offset - b.offset) <= a.uncertainty + b.uncertainty;
}

}  // namespace

void ClockComparison::Add(int64_t asked, int64_t received, int64_t answered, int64_t heard) {
  for (const int64_t time : {asked, received, answered, heard}) {
    if (!IsPlausible(time)) return;
  }
  const int64_t round_trip = (heard - asked) - (answered - received);
  if (heard < asked || answered < received || round_trip < 0) return;
  ++count_;
  const int64_t uncertainty = (round_trip + 1) / 2;
  if (best_.has_value() && best_->uncertainty <= uncertainty) return;
  best_ = {heard, ((received - asked) + (answered - heard)) / 2, uncertainty};
}

ClockLine::ClockLine(const std::vector<ClockSample>& samples) : samples_(samples) {
  for (const ClockSample& sample : samples_) {
    uncertainty_ = std::max(uncertainty_, sample.uncertainty);
  }
}

int64_t ClockLine::ToReference(int64_t own) const {
  if (samples_.empty() || !IsPlausible(own)) return own;
  const ClockSample& first = samples_.front();
  const ClockSample& last = samples_.back();
  if (own <= first.at || last.at <= first.at) return own + first.offset;
  if (own >= last.at) return own + last.offset;
  const double part = static_cast<double>(own - first.at) / static_cast<double>(last.at - first.at);
  return own + first.offset +
         static_cast<int64_t>(static_cast<double>(last.offset - first.offset) * part);
}

std::vector<ClockLine> AlignClocks(const std::vector<ClockReport>& reports) {
  // One that could not be compared may have the clock of one that was.
  const auto samples_of = [&](const ClockReport& report) -> const std::vector<ClockSample>& {
    if (!report.samples.empty() || report.host_id.empty()) return report.samples;
    for (const ClockReport& other : reports) {
      if (other.host_id == report.host_id && !other.samples.empty()) return other.samples;
    }
    return report.samples;
  };
  std::vector<ClockLine> lines;
  for (const ClockReport& report : reports) {
    std::vector<ClockSample> samples;
    const std::vector<ClockSample>& measured = samples_of(report);
    for (size_t i = 0; i < measured.size(); ++i) {
      ClockSample sample = measured[i];
      if (!IsPlausible(sample.at) || !IsPlausible(sample.offset) || sample.uncertainty < 0 ||
          !IsPlausible(sample.uncertainty)) {
        continue;
      }
      const ClockSample own = sample;
      for (const ClockReport& other : reports) {
        if (other.host_id.empty() || other.host_id != report.host_id) continue;
        // Taken at the same end of the recording.
        if (i >= other.samples.size()) continue;
        const ClockSample& theirs = other.samples[i];
        if (!IsPlausible(theirs.offset) || theirs.uncertainty < 0 ||
            !IsPlausible(theirs.uncertainty)) {
          continue;
        }
        if (theirs.uncertainty < sample.uncertainty && Agree(own, theirs)) {
          sample.offset = theirs.offset;
          sample.uncertainty = theirs.uncertainty;
        }
      }
      samples.push_back(sample);
    }
    lines.emplace_back(samples);
  }
  return lines;
}

}  // namespace lockstep::trace
