// How many calls a second a session issues, and how many its workers execute.
//
// A call returns a DRef that is dropped at once, so that freeing registers is counted too. The
// rival sends one message per command and worker; what makes us faster is batching.
#include <chrono>

#include "services/local/child_process.h"
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

}  // namespace

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

  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::string rival,
      local::FindProgram("router_dealer", "LOCKSTEP_ROUTER_DEALER", "tools/bench"));
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

}  // namespace lockstep::bench
