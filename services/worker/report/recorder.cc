#include "services/worker/report/recorder.h"

#include <algorithm>

#include "runtime/control/value_codec.h"
#include "services/metrics/counters.h"

namespace lockstep::worker {
namespace {

constexpr std::array<const char*, 25> kKindNames = {
    "sync",          "call",          "get_function", "load_module",    "empty",
    "collective",    "fetch",         "store",        "locate",         "release",
    "open_session",  "close_session", "reset",        "name_register",  "adopt",
    "reshard",       "bind",          "execute",      "declare_layout", "find_layout",
    "load_fragment", "run_fragment",  "lend",         "end_loan",       "other"};
static_assert(static_cast<int>(wire::Command::SYNC) == 0 &&
              static_cast<int>(wire::Command::COLLECTIVE) == 5 &&
              static_cast<int>(wire::Command::RELEASE) == 9 &&
              static_cast<int>(wire::Command::RESHARD) == 15 &&
              static_cast<int>(wire::Command::EXECUTE) == 17 &&
              static_cast<int>(wire::Command::FIND_LAYOUT) == 19 &&
              static_cast<int>(wire::Command::RUN_FRAGMENT) == 21 &&
              static_cast<int>(wire::Command::END_LOAN) == 23);
constexpr std::array<const char*, 5> kStageNames = {"batching", "ordering", "transit", "waiting",
                                                    "executing"};

}  // namespace

const char* Recorder::NameOfKind() const { return kKindNames[kind_]; }

void Recorder::StartTiming(bool is_first) {
  if (!now_is_fresh_) now_ = Clock::now();
  now_is_fresh_ = false;
  started_ = now_;
  Observe(kWaiting, started_ - taken_);
  if (!is_first) return;
  Observe(kBatching, times_.in_client);
  Observe(kOrdering, times_.in_controller);
  Observe(kTransit, times_.in_transit);
}

void Recorder::FinishTiming() {
  if (!now_is_fresh_) now_ = Clock::now();
  now_is_fresh_ = true;
  is_timed_ = false;
  Observe(kExecuting, now_ - started_);
}

CollectiveCost Recorder::AddCollective(SessionId session, Generation generation, uint64_t command,
                                       wire::CollectiveKind kind, const CollectiveFacts& facts) {
  spans_.Describe(facts);
  if (facts.backend.empty()) return {};
  now_ = Clock::now();
  now_is_fresh_ = true;
  const CollectiveCost cost{collectives_.Add(kind, facts, now_ - started_), now_ - started_};
  const OperationFacts* const operation = control::FindOperation(kind);
  if (facts.ranks < 2 || operation == nullptr || !IsLeftTogether(operation->kind)) return cost;
  arrivals_.Note({session, generation, command, static_cast<uint16_t>(kind),
                  static_cast<uint16_t>(facts.ranks), facts.first, now_ - started_});
  return cost;
}

void Recorder::SetRegisters(const registers::RegisterTotals& totals) {
  const auto copy = [](std::atomic<int64_t>& to, const std::atomic<int64_t>& from) {
    to.store(from.load(std::memory_order_relaxed), std::memory_order_relaxed);
  };
  copy(registers_.live_registers, totals.live_registers);
  copy(registers_.tensor_bytes, totals.tensor_bytes);
  copy(registers_.peak_registers, totals.peak_registers);
  copy(registers_.peak_tensor_bytes, totals.peak_tensor_bytes);
}

void Recorder::AddError(SessionId session, uint64_t command, StatusCode code) {
  errors_[metrics::IndexOf(code)].Add();
  spans_.Fail(session, command, code);
}

void Recorder::Tell(metrics::Families& families) const {
  static_assert(kKindNames.size() == kKinds && kStageNames.size() == kStages);
  static_assert(kCodes == metrics::kCodes);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    if (commands_[kind].value() == 0) continue;
    families.Counter("lockstep_commands_total", "Commands that this worker has executed.",
                     static_cast<double>(commands_[kind].value()), {{"kind", kKindNames[kind]}});
  }
  for (size_t kind = 0; kind < kKinds; ++kind) {
    for (size_t stage = 0; stage < kStages; ++stage) {
      const metrics::DurationHistogram& histogram = stages_[kind][stage];
      if (histogram.Count() == 0) continue;
      families.Histogram("lockstep_command_stage_seconds",
                         "How long commands were in each stage of their life; a sample of them.",
                         histogram, {{"kind", kKindNames[kind]}, {"stage", kStageNames[stage]}});
    }
  }
  plan_caches_.Tell(families);
  fragments_.Tell(families);
  for (size_t code = 1; code < kCodes; ++code) {
    families.Counter("lockstep_worker_errors_total",
                     "Commands that have failed on this worker and were not aborted, by code.",
                     static_cast<double>(errors_[code].value()), {{"code", metrics::NameOf(code)}});
  }
}

}  // namespace lockstep::worker
