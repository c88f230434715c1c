#include "runtime/client/bulk_pace.h"

#include <algorithm>
#include <chrono>

namespace lockstep::client {
namespace {

using std::chrono::duration;

// Alone: requests small enough to stay in a core's cache from the network to the checksum to the
// tensor, and enough of them for a wire of 10 Gbit/s and 10 ms, few enough to bound memory.
constexpr BulkPace::Limits kAlone{size_t{512} << 10, size_t{12} << 20};
// Beside commands: as little as keeps both ends at work at once.
constexpr size_t kRequestBytes = size_t{128} << 10;
constexpr size_t kFewestRequests = 2;
constexpr size_t kMostBytes = kAlone.under_way_bytes;
// What both ends take for a request, but for its bytes, where there is hardly a wire.
constexpr double kSecondsAtTheEnds = 0.5e-3;
// For so long after a command, for the next one.
constexpr BulkPace::Clock::duration kGivesWayFor = std::chrono::milliseconds(10);

}  // namespace

void BulkPace::Begin() {
  began_ = Now();
  answered_bytes_ = 0;
}

double BulkPace::DelaySeconds() const {
  if (bytes_per_second_ == 0) return 0;
  const double all = duration<double>(shortest_).count();
  const double of_bytes = static_cast<double>(shortest_bytes_) / bytes_per_second_;
  return std::max(0.0, all - of_bytes - kSecondsAtTheEnds);
}

BulkPace::Limits BulkPace::Current() const {
  if (Now() >= gives_way_until_) return kAlone;
  const auto on_the_wire = static_cast<size_t>(bytes_per_second_ * DelaySeconds());
  return {kRequestBytes, std::min(kFewestRequests * kRequestBytes + on_the_wire, kMostBytes)};
}

void BulkPace::NoteAnswer(Clock::time_point sent, size_t size_bytes, bool commands_came) {
  const Clock::time_point now = Now();
  if (commands_came) gives_way_until_ = now + kGivesWayFor;
  if (now - sent < shortest_) {
    shortest_ = now - sent;
    shortest_bytes_ = size_bytes;
  }
  answered_bytes_ += size_bytes;
  const double seconds = duration<double>(now - began_).count();
  if (seconds <= 0) return;
  bytes_per_second_ = std::max(bytes_per_second_, static_cast<double>(answered_bytes_) / seconds);
}

}  // namespace lockstep::client
