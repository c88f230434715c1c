#include "tools/bench/session_timing.h"

#include <utility>
#include <vector>

#include "tools/bench/statistics.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUps = 300;

}  // namespace

StatusOr<double> TimeSync(Session& session, std::chrono::milliseconds time) {
  for (int i = 0; i < kWarmUps; ++i) LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
  std::vector<double> micros;
  const auto end = Clock::now() + time;
  for (auto start = Clock::now(); start < end;) {
    LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
    const auto now = Clock::now();
    micros.push_back(std::chrono::duration<double, std::micro>(now - start).count());
    start = now;
  }
  return Median(std::move(micros));
}

}  // namespace lockstep::bench
