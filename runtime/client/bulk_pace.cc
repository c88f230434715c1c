#include "runtime/client/bulk_pace.h"

#include <algorithm>
#include <chrono>

namespace lockstep::client {
namespace {

// Alone: requests small enough to stay in a core's cache from the network to the checksum to the
// tensor, and enough of them for a wire of 10 Gbit/s and 10 ms, few enough to bound memory.
constexpr BulkPace::Limits kAlone{size_t{512} << 10, size_t{12} << 20};
// Beside commands: as little as keeps both ends at work at once. On a wire that takes long, one
// more request for each such part of that time.
constexpr size_t kRequestBytes = size_t{128} << 10;
constexpr int64_t kFewestRequests = 2;
constexpr BulkPace::Clock::duration kOneMoreEach = std::chrono::microseconds(150);
// For so long after a command, for the next one.
constexpr BulkPace::Clock::duration kGivesWayFor = std::chrono::milliseconds(10);

}  // namespace

BulkPace::Limits BulkPace::At(Clock::time_point now) const {
  if (now >= gives_way_until_) return kAlone;
  constexpr auto kMostRequests = static_cast<int64_t>(kAlone.under_way_bytes / kRequestBytes);
  const int64_t requests = std::clamp(shortest_ / kOneMoreEach, kFewestRequests, kMostRequests);
  return {kRequestBytes, static_cast<size_t>(requests) * kRequestBytes};
}

void BulkPace::NoteAnswer(Clock::time_point now, Clock::duration took, bool commands_came) {
  shortest_ = std::min(shortest_, took);
  if (commands_came) gives_way_until_ = now + kGivesWayFor;
}

}  // namespace lockstep::client
