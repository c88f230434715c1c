// Built-in functions about the caller's place, and those that tests and benchmarks need.
#include <cmath>
#include <thread>

#include "runtime/base/deadline.h"
#include "runtime/module/builtins.h"

namespace lockstep::module {
namespace {

using registers::Value;

Status Nop(const CallContext&, ArgReader&, Value*) { return OkStatus(); }

Status Identity(const CallContext&, ArgReader& in, Value* result) {
  Value value = in.Any("value");
  LOCKSTEP_RETURN_IF_ERROR(in.Finish());
  *result = std::move(value);
  return OkStatus();
}

// The six that tell a function where it runs differ in nothing else.
template <int64_t (*kPlace)(const CallContext&)>
Status Place(const CallContext& context, ArgReader& in, Value* result) {
  LOCKSTEP_RETURN_IF_ERROR(in.Finish());
  *result = kPlace(context);
  return OkStatus();
}
int64_t WorkerRank(const CallContext& context) { return context.rank; }
int64_t WorldSize(const CallContext& context) { return context.world_size; }
int64_t NumGroups(const CallContext& context) { return context.num_groups; }
int64_t Group(const CallContext& context) { return context.Group(); }
int64_t GroupRank(const CallContext& context) { return context.GroupRank(); }
int64_t GroupSize(const CallContext& context) { return context.GroupSize(); }

// The optional last argument of sleep and fail; true if this worker is meant.
bool MeansThisWorker(const CallContext& context, ArgReader& in) {
  return !in.HasNext() || in.IndexBelow("rank", context.world_size) == context.rank;
}

Status Sleep(const CallContext& context, ArgReader& in, Value*) {
  constexpr double kLongestSeconds = 24 * 3600;
  constexpr auto kPollInterval = std::chrono::milliseconds(2);
  const double seconds = in.Float("seconds");
  if (!(seconds >= 0 && seconds <= kLongestSeconds)) in.Reject("must be between 0 and one day");
  const bool sleeps = MeansThisWorker(context, in);
  LOCKSTEP_RETURN_IF_ERROR(in.Finish());
  if (!sleeps) return OkStatus();
  const Deadline end = Deadline::After(std::chrono::duration_cast<Deadline::Clock::duration>(
      std::chrono::duration<double>(seconds)));
  while (!end.Expired()) {
    if (context.IsAborted()) return Aborted("the sleep was aborted");
    std::this_thread::sleep_for(
        std::min<Deadline::Clock::duration>(end.Remaining(), kPollInterval));
  }
  return OkStatus();
}

Status Fail(const CallContext& context, ArgReader& in, Value*) {
  const std::string message = in.Text("message");
  const bool fails = MeansThisWorker(context, in);
  LOCKSTEP_RETURN_IF_ERROR(in.Finish());
  return fails ? Internal(message) : OkStatus();
}

constexpr Builtin kControlBuiltins[] = {
    {"lockstep.nop", Nop},
    {"lockstep.identity", Identity},
    {"lockstep.worker_rank", Place<WorkerRank>},
    {"lockstep.world_size", Place<WorldSize>},
    {"lockstep.num_groups", Place<NumGroups>},
    {"lockstep.group", Place<Group>},
    {"lockstep.group_rank", Place<GroupRank>},
    {"lockstep.group_size", Place<GroupSize>},
    {"lockstep.sleep", Sleep},
    {"lockstep.fail", Fail},
};

}  // namespace

absl::Span<const Builtin> ControlBuiltins() { return kControlBuiltins; }

}  // namespace lockstep::module
