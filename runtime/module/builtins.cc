#include "runtime/module/builtins.h"

#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "runtime/base/deadline.h"

namespace lockstep::module {

namespace {

class BuiltinFunction final : public Function {
 public:
  explicit BuiltinFunction(const Builtin& builtin)
      : name_(builtin.name),
        body_(builtin.body),
        target_(builtin.target),
        may_be_captured_(builtin.may_be_captured) {}

  const std::string& name() const override { return name_; }

  bool UsesGpuByItself() const override { return false; }
  bool MayWriteTo(size_t argument) const override { return static_cast<int>(argument) == target_; }
  bool MayBeCaptured() const override { return may_be_captured_; }

  Status Call(const CallContext& context, absl::Span<const registers::Value> args,
              registers::Value* result) override {
    ArgReader in(args, context.gpu != nullptr);
    *result = registers::None();
    return body_(context, in, result);
  }

 private:
  const std::string name_;
  decltype(Builtin::body) const body_;
  const int target_;
  const bool may_be_captured_;
};

}  // namespace

void AddBuiltins(FunctionTable& table) {
  for (const auto family : {CreationBuiltins(), TransformBuiltins(), ControlBuiltins()}) {
    for (const Builtin& builtin : family) {
      // Two built-in functions of one name are a bug of this folder; its tests would not start.
      if (!table.Add(std::make_shared<BuiltinFunction>(builtin)).ok()) std::abort();
    }
  }
}

std::optional<bool> BuiltinMayBeCaptured(std::string_view name) {
  for (const auto family : {CreationBuiltins(), TransformBuiltins(), ControlBuiltins()}) {
    for (const Builtin& builtin : family) {
      if (builtin.name == name) return builtin.may_be_captured;
    }
  }
  return std::nullopt;
}

// Built-in functions about the caller's place, and those that tests and benchmarks need.

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
Status ContextNumber(const CallContext& context, ArgReader& in, Value* result) {
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
    {"lockstep.nop", Nop, kNoTarget, kCaptured},
    {"lockstep.identity", Identity},
    {"lockstep.worker_rank", ContextNumber<WorkerRank>},
    {"lockstep.world_size", ContextNumber<WorldSize>},
    {"lockstep.num_groups", ContextNumber<NumGroups>},
    {"lockstep.group", ContextNumber<Group>},
    {"lockstep.group_rank", ContextNumber<GroupRank>},
    {"lockstep.group_size", ContextNumber<GroupSize>},
    {"lockstep.sleep", Sleep},
    {"lockstep.fail", Fail},
};

}  // namespace

absl::Span<const Builtin> ControlBuiltins() { return kControlBuiltins; }

}  // namespace lockstep::module
