#include "services/worker/execute/collectives_on_gpu.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

namespace lockstep::worker {
namespace {

// By as much as ranks come to the end of a collective at different times.
constexpr std::chrono::seconds kPeersMayBeBehind{1};

}  // namespace

bool CollectivesOnGpu::End(CollectiveOnGpu* ended) {
  *ended = std::move(all_.front());
  all_.pop_front();
  for (CollectiveOnGpu& one : all_) {
    if (one.connection == ended->connection) one.previous_end = Deadline::Clock::now();
  }
  // The connection may be aborted by now because of others, after this one.
  return !ended->is_given_up || !ended->connection->is_aborted();
}

void CollectivesOnGpu::GiveUp(Generation generation, uint64_t from_command) {
  for (CollectiveOnGpu& one : all_) {
    if (one.generation == generation && one.command >= from_command) one.is_given_up = true;
  }
}

void CollectivesOnGpu::GiveUpAll() {
  for (CollectiveOnGpu& one : all_) one.is_given_up = true;
}

bool CollectivesOnGpu::IsAnyGivenUp() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const CollectiveOnGpu& one) { return one.is_given_up; });
}

void CollectivesOnGpu::AbortGivenUp(const Status& cause) {
  using collective::DeviceConnection;
  std::map<const DeviceConnection*, const CollectiveOnGpu*> kept;  // the last of each
  std::set<const DeviceConnection*> seen;
  for (CollectiveOnGpu& one : all_) {
    const DeviceConnection* const connection = one.connection.get();
    if (!one.is_given_up) {
      kept[connection] = &one;
      continue;
    }
    // It takes those after it along.
    if (!seen.insert(connection).second || one.ends_after_others) continue;
    const auto before = kept.find(connection);
    const bool was_busy = Deadline::Clock::now() - one.previous_end < kPeersMayBeBehind;
    if (before == kept.end() && !was_busy) {
      one.connection->Abort(cause);
    } else {
      one.ends_after_others = true;
      one.gpu->AbortAfter(one.connection, before == kept.end() ? nullptr : before->second->end,
                          cause);
    }
  }
}

}  // namespace lockstep::worker
