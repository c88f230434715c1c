// What commands cost: to encode one, to issue and execute many.
#include <capnp/message.h>
#include <capnp/serialize.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/child_process.h"
#include "runtime/base/shape.h"
#include "runtime/client/argument.h"
#include "runtime/client/call_encoding.h"
#include "runtime/client/register_names.h"
#include "runtime/control/batch.h"
#include "runtime/control/value_codec.h"
#include "tools/bench/clusters.h"
#include "tools/bench/disco.h"
#include "tools/bench/program.h"
#include "tools/bench/rows.h"
#include "tools/bench/thread_time.h"

namespace lockstep::bench {
namespace {

constexpr int kCallsWorkers = 4;
// Of what the bare ring does, without and with arguments.
constexpr double kCallsGoal = 0.6;
constexpr double kTypedCallsGoal = 0.4;

struct Rates {
  double issued = 0;    // calls per second until the last Call() has returned
  double executed = 0;  // until all workers have executed the last one
};

template <typename Issue>
StatusOr<Rates> TimeCalls(Session& session, int calls, Issue&& issue) {
  using Clock = std::chrono::steady_clock;
  const auto per_second = [calls](Clock::duration elapsed) {
    return calls / std::chrono::duration<double>(elapsed).count();
  };
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) LOCKSTEP_RETURN_IF_ERROR(issue(i));
  const auto issued = Clock::now();
  LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
  return Rates{per_second(issued - start), per_second(Clock::now() - start)};
}

constexpr double kGoalNanos = 80;
constexpr double kDropGoalNanos = 30;
constexpr int kDropsPerBatch = 200;  // about as many calls of five arguments are in one
constexpr size_t kBatchBytes = size_t{48} << 10;  // as a session sends them

// The same call by Cap'n Proto's builder.
void FillCall(wire::Command::Builder command, const DRef& function, const DRef& result,
              absl::Span<const client::Argument> arguments) {
  auto call = command.initCall();
  call.setFunction(function.id().Packed());
  call.setResult(result.id().Packed());
  auto list = call.initArgs(static_cast<unsigned>(arguments.size()));
  list[0].setInt64(arguments[0].integer());
  list[1].setFloat64(arguments[1].real());
  const std::string_view text = arguments[2].text();
  list[2].setText({text.data(), text.size()});
  list[3].setRegister(arguments[3].object<DRef>().id().Packed());
  const Shape& shape = arguments[4].object<Shape>();
  control::WriteDims(list[4].initShape(static_cast<unsigned>(shape.ndim())), shape);
}

template <typename Encode>
double NanosPerCall(int calls, Encode&& encode) {
  const double nanos = ThreadNanos([&] {
    for (int i = 0; i < calls; ++i) encode(i);
  });
  return nanos / calls;
}

}  // namespace

// How many calls a second a session issues, and how many its workers execute.
//
// A call returns a DRef that is dropped at once, so that freeing registers is counted too. Both
// rivals send one message per command, the ring to all workers at once; what makes us faster is
// batching.
Status MeasureCalls(const Settings& settings, Report& report) {
  Line& executed = report.Add({.row = "calls",
                               .what = "no-op calls executed, 4 worker processes",
                               .unit = "1/s",
                               .better = Better::kMore,
                               .goal = Goal::RatioAtLeast(kCallsGoal),
                               .note = "a SyncAll at the end is counted in"});
  Line& issued = report.Add({.row = "calls",
                             .what = "no-op calls issued",
                             .unit = "1/s",
                             .better = Better::kMore,
                             .goal = Goal::None(),
                             .note = "what the client's thread sees"});
  Line& typed = report.Add({.row = "calls",
                            .what = "calls of 5 arguments executed",
                            .unit = "1/s",
                            .better = Better::kMore,
                            .goal = Goal::RatioAtLeast(kTypedCallsGoal),
                            .note = "int, float, text, DRef, shape"});

  LOCKSTEP_ASSIGN_OR_RETURN(const std::string fan_out,
                            FindProgram("router_dealer", "LOCKSTEP_ROUTER_DEALER", "tools/bench"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string ring,
                            FindProgram("shared_ring", "LOCKSTEP_SHARED_RING", "tools/bench"));
  LOCKSTEP_ASSIGN_OR_RETURN(const Disco disco,
                            Disco::Find(settings, "commands_per_s", {&executed, &typed}));
  const auto commands_of = [&](std::vector<std::string> argv) -> StatusOr<double> {
    LOCKSTEP_ASSIGN_OR_RETURN(const Numbers numbers,
                              RunRival({.argv = std::move(argv), .scratch = settings.scratch}));
    return Get(numbers, "commands_per_s");
  };
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, StartLocalCluster(kCallsWorkers));
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster->Connect());
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef nop, session.GetFunction("lockstep.nop"));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef tensor, session.Empty(Shape({4}), DType::kFloat32));

  const int calls = settings.quick ? 100'000 : 400'000;
  const Shape shape({32, 128});
  const auto call_nop = [&](int) { return session.Call(nop).status(); };
  const auto call_typed = [&](int i) {
    return session.Call(nop, i, 0.5, "a layer's name", tensor, shape).status();
  };
  LOCKSTEP_RETURN_IF_ERROR(TimeCalls(session, calls / 10, call_nop).status());
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(const Rates plain, TimeCalls(session, calls, call_nop));
    executed.ours.push_back(plain.executed);
    issued.ours.push_back(plain.issued);
    const std::string workers = std::to_string(kCallsWorkers);
    LOCKSTEP_ASSIGN_OR_RETURN(const double by_socket, commands_of({fan_out, workers, "ipc"}));
    LOCKSTEP_ASSIGN_OR_RETURN(const double by_ring, commands_of({ring, workers}));
    LOCKSTEP_ASSIGN_OR_RETURN(const Rates with_arguments,
                              TimeCalls(session, calls / 4, call_typed));
    typed.ours.push_back(with_arguments.executed);
    LOCKSTEP_RETURN_IF_ERROR(disco.Measure(kCallsWorkers));
    for (Line* const line : {&executed, &typed}) {
      line->Rival("bare ROUTER-DEALER").values.push_back(by_socket);
      line->Rival("bare ring").values.push_back(by_ring);
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(session.Close());
  return cluster->Stop();
}

// What it costs the client to encode one call of five arguments, beside Cap'n Proto used plainly.
Status MeasureEncode(const Settings& settings, Report& report) {
  Line& line = report.Add({.row = "encode",
                           .what = "a call of 5 arguments",
                           .unit = "ns",
                           .better = Better::kLess,
                           .goal = Goal::ValueAtMost(kGoalNanos),
                           .note = "int, float, text, DRef, shape; into batches of 48 KiB"});
  Line& drop = report.Add({.row = "encode",
                           .what = "name a result, and drop the name",
                           .unit = "ns",
                           .better = Better::kLess,
                           .goal = Goal::ValueAtMost(kDropGoalNanos),
                           .note = "a DRef; taken for the kill list after 200 of them"});
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
      (void)client::WriteCall(writer, function.id(), result.id(), arguments);
      if (writer.size_bytes() >= kBatchBytes) Keep(writer.Take().data());
    };
    const auto plainly = [&](int i) {
      const auto arguments = arguments_of(i);
      capnp::MallocMessageBuilder builder;
      FillCall(builder.initRoot<wire::Command>(), function, result, arguments);
      Keep(capnp::messageToFlatArray(builder).begin());
    };
    std::vector<uint64_t> kills;
    const auto name_and_drop = [&](int i) {
      { const DRef dropped = names->Acquire(static_cast<uint64_t>(i)); }
      if (i % kDropsPerBatch != 0) return;
      kills.clear();
      names->TakeKills(&kills, kDropsPerBatch);
      Keep(kills.data());
    };
    const int calls = settings.quick ? 100'000 : 400'000;
    (void)NanosPerCall(calls / 10, in_place);
    (void)NanosPerCall(calls / 10, plainly);
    for (int round = 0; round < settings.rounds; ++round) {
      line.ours.push_back(NanosPerCall(calls, in_place));
      line.Rival("Cap'n Proto, a message each").values.push_back(NanosPerCall(calls, plainly));
      drop.ours.push_back(NanosPerCall(calls, name_and_drop));
    }
  }
  names->Unref();
  return CheckNotInterrupted();
}

}  // namespace lockstep::bench
