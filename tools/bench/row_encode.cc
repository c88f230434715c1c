// What it costs the client to encode one call of five arguments, beside Cap'n Proto used plainly.
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <time.h>

#include "absl/types/span.h"
#include "runtime/base/shape.h"
#include "runtime/client/argument.h"
#include "runtime/client/register_names.h"
#include "runtime/client/session_core.h"
#include "runtime/control/batch.h"
#include "tools/bench/rows.h"

namespace lockstep::bench {
namespace {

constexpr double kGoalNanos = 150;
constexpr size_t kBatchBytes = size_t{48} << 10;  // as a session sends them

// What Session::Call writes.
void FillCall(wire::Command::Builder command, const DRef& function, const DRef& result,
              absl::Span<const client::Argument> arguments) {
  auto call = command.initCall();
  call.setFunction(function.id().Packed());
  call.setResult(result.id().Packed());
  client::WriteArguments(call.initArgs(static_cast<unsigned>(arguments.size())), arguments);
}

// This thread's processor time: other programs on the machine do not count.
double ThreadNanos() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

template <typename Encode>
double NanosPerCall(int calls, Encode&& encode) {
  const double start = ThreadNanos();
  for (int i = 0; i < calls; ++i) encode(i);
  return (ThreadNanos() - start) / calls;
}

// The bytes are looked at by nobody here; the compiler must not know.
void Keep(const void* bytes) { asm volatile("" : : "g"(bytes) : "memory"); }

}  // namespace

Status MeasureEncode(const Settings& settings, Report& report) {
  Line& line = report.Add({.row = "encode",
                           .what = "a call of 5 arguments",
                           .unit = "ns",
                           .better = Better::kLess,
                           .goal = Goal::ValueAtMost(kGoalNanos),
                           .note = "int, float, text, DRef, shape; into batches of 48 KiB"});
  client::RegisterNames* const names = client::RegisterNames::Create(SessionId(1));
  {
    const DRef function = names->Acquire(1);
    const DRef tensor = names->Acquire(1);
    const DRef result = names->Acquire(1);
    const Shape shape({32, 128});
    const auto arguments_of = [&](int i) {
      return client::ArgumentList<5>{i, 0.5, "a layer's name", tensor, shape};
    };
    control::BatchWriter writer;
    const auto in_place = [&](int i) {
      const auto arguments = arguments_of(i);
      (void)writer.Add(
          [&](wire::Command::Builder command) { FillCall(command, function, result, arguments); });
      if (writer.size_bytes() >= kBatchBytes) Keep(writer.Take().data());
    };
    const auto plainly = [&](int i) {
      const auto arguments = arguments_of(i);
      capnp::MallocMessageBuilder builder;
      FillCall(builder.initRoot<wire::Command>(), function, result, arguments);
      Keep(capnp::messageToFlatArray(builder).begin());
    };
    const int calls = settings.quick ? 100'000 : 400'000;
    (void)NanosPerCall(calls / 10, in_place);
    (void)NanosPerCall(calls / 10, plainly);
    for (int round = 0; round < settings.rounds; ++round) {
      line.ours.push_back(NanosPerCall(calls, in_place));
      line.Rival("Cap'n Proto, a message each").values.push_back(NanosPerCall(calls, plainly));
    }
  }
  names->Unref();
  return CheckNotInterrupted();
}

}  // namespace lockstep::bench
