// What commands cost: to encode one, to issue and execute many, to wait for all workers.
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <time.h>

#include <chrono>

#include "absl/types/span.h"
#include "runtime/base/child_process.h"
#include "runtime/base/shape.h"
#include "runtime/client/argument.h"
#include "runtime/client/register_names.h"
#include "runtime/client/session_commands.h"
#include "runtime/control/batch.h"
#include "tools/bench/clusters.h"
#include "tools/bench/program.h"
#include "tools/bench/rows.h"

namespace lockstep::bench {
namespace {

constexpr int kCallsWorkers = 4;
constexpr double kCallsGoal = 1e6;

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

// Nothing looks at the bytes; the compiler must not know.
void Keep(const void* bytes) { asm volatile("" : : "g"(bytes) : "memory"); }

constexpr int kSyncWorkers = 4;
constexpr double kSyncGoal = 1 / 1.5;  // within 1.5 times the rival's time
constexpr double kGoalTcp = 1 / 1.25;

}  // namespace

// How many calls a second a session issues, and how many its workers execute.
//
// A call returns a DRef that is dropped at once, so that freeing registers is counted too. The
// rival sends one message per command and worker; what makes us faster is batching.
Status MeasureCalls(const Settings& settings, Report& report) {
  Line& executed = report.Add({.row = "calls",
                               .what = "no-op calls executed, 4 worker processes",
                               .unit = "1/s",
                               .better = Better::kMore,
                               .goal = Goal::ValueAtLeast(kCallsGoal),
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
                            .goal = Goal::None(),
                            .note = "int, float, text, DRef, shape"});

  LOCKSTEP_ASSIGN_OR_RETURN(const std::string rival,
                            FindProgram("router_dealer", "LOCKSTEP_ROUTER_DEALER", "tools/bench"));
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
    LOCKSTEP_ASSIGN_OR_RETURN(const Numbers numbers,
                              RunRival({.argv = {rival, std::to_string(kCallsWorkers), "ipc"},
                                        .scratch = settings.scratch}));
    LOCKSTEP_ASSIGN_OR_RETURN(const double commands, Get(numbers, "commands_per_s"));
    executed.Rival("bare ROUTER-DEALER").values.push_back(commands);
    LOCKSTEP_ASSIGN_OR_RETURN(const Rates with_arguments,
                              TimeCalls(session, calls / 4, call_typed));
    typed.ours.push_back(with_arguments.executed);
    typed.Rival("bare ROUTER-DEALER").values.push_back(commands);
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

// How long all workers take to answer, beside a bare ROUTER-DEALER fan-out.
//
// On one host over sockets of the file system, and over TCP as between hosts. The fan-out has one
// hop each way, workers that execute nothing, and no controller in between; our sync passes the
// controller, which gathers the answers into one.
Status MeasureSync(const Settings& settings, Report& report) {
  Line& embedded = report.Add({.row = "sync",
                               .what = "SyncAll, 4 worker processes, p50",
                               .unit = "us",
                               .better = Better::kLess,
                               .goal = Goal::RatioAtLeast(kSyncGoal),
                               .note = "controller in the client's process (LocalCluster)"});
  Line& service = report.Add({.row = "sync",
                              .what = "the same with `lockstep up`",
                              .unit = "us",
                              .better = Better::kLess,
                              .goal = Goal::None(),
                              .note = "controller in a process of its own"});
  Line& tcp = report.Add({.row = "sync",
                          .what = "the same over TCP",
                          .unit = "us",
                          .better = Better::kLess,
                          .goal = Goal::RatioAtLeast(kGoalTcp),
                          .note = "LocalCluster, on ports of 127.0.0.1"});

  LOCKSTEP_ASSIGN_OR_RETURN(const std::string rival,
                            FindProgram("router_dealer", "LOCKSTEP_ROUTER_DEALER", "tools/bench"));
  const auto fan_out = [&](const char* transport) -> StatusOr<double> {
    LOCKSTEP_ASSIGN_OR_RETURN(const Numbers numbers,
                              RunRival({.argv = {rival, std::to_string(kSyncWorkers), transport},
                                        .scratch = settings.scratch}));
    return Get(numbers, "sync_p50_us");
  };
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, StartLocalCluster(kSyncWorkers));
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster->Connect());
  LOCKSTEP_ASSIGN_OR_RETURN(const auto services, ServiceCluster::Up(settings, kSyncWorkers));
  LOCKSTEP_ASSIGN_OR_RETURN(Session service_session, services->Connect());
  LOCKSTEP_ASSIGN_OR_RETURN(const auto tcp_cluster, StartLocalCluster(kSyncWorkers, Sockets::kTcp));
  LOCKSTEP_ASSIGN_OR_RETURN(Session tcp_session, tcp_cluster->Connect());

  const std::chrono::milliseconds time(settings.quick ? 150 : 400);
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(const double embedded_us, TimeSync(session, time));
    embedded.ours.push_back(embedded_us);
    LOCKSTEP_ASSIGN_OR_RETURN(const double rival_us, fan_out("ipc"));
    embedded.Rival("bare ROUTER-DEALER").values.push_back(rival_us);
    LOCKSTEP_ASSIGN_OR_RETURN(const double service_us, TimeSync(service_session, time));
    service.ours.push_back(service_us);
    service.Rival("bare ROUTER-DEALER").values.push_back(rival_us);
    LOCKSTEP_ASSIGN_OR_RETURN(const double tcp_us, TimeSync(tcp_session, time));
    tcp.ours.push_back(tcp_us);
    LOCKSTEP_ASSIGN_OR_RETURN(const double tcp_rival_us, fan_out("tcp"));
    tcp.Rival("bare ROUTER-DEALER").values.push_back(tcp_rival_us);
  }
  LOCKSTEP_RETURN_IF_ERROR(tcp_session.Close());
  LOCKSTEP_RETURN_IF_ERROR(service_session.Close());
  LOCKSTEP_RETURN_IF_ERROR(session.Close());
  LOCKSTEP_RETURN_IF_ERROR(tcp_cluster->Stop());
  LOCKSTEP_RETURN_IF_ERROR(services->Down());
  return cluster->Stop();
}

}  // namespace lockstep::bench
