#include "tests/chaos/faults.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "runtime/client/failure.h"

namespace lockstep::chaos {
namespace {

// Longer than it takes a client to find out what a broken connection has lost (a quarter of a
// lease).
constexpr std::chrono::milliseconds kCountedWithin{600};

// A session that has failed is usable again, and has all that was made before.
Status Recover(Client& client, uint64_t mark, int steps) {
  client.program.ForgetSince(mark);
  LOCKSTEP_RETURN_IF_ERROR(client.Timed([&] { return client.session.Reset(); }));
  LOCKSTEP_RETURN_IF_ERROR(client.program.CheckAll());
  return RunToTheEnd(client, steps);
}

// Goes on with a session that is failing: every error is the first cause, which `is_cause` knows.
template <typename IsCause>
Status ExpectCause(Client& client, const std::string& what, IsCause is_cause) {
  const Status on_the_way = client.TakeSteps(5);
  if (!on_the_way.ok() && !is_cause(on_the_way)) {
    return Violation(what, ", but a call returned: ", on_the_way.ToString());
  }
  for (int i = 0; i < 2; ++i) {
    const Status status = client.SyncAll();
    if (!is_cause(status)) {
      return Violation(what, ", but the client read: ", status.ToString());
    }
  }
  return OkStatus();
}

bool Says(const Status& status, const std::string& text) {
  return Message(status).find(text) != std::string::npos;
}

std::string RankName(Rank rank) { return "rank " + std::to_string(rank); }

// The victim's rank throws, while the program goes on for a while.
Status ThrowAndRecover(Client& client, const Plan& plan) {
  LOCKSTEP_RETURN_IF_ERROR(client.TakeSteps(plan.steps));
  const uint64_t mark = client.program.Mark();
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef fail, client.session.GetFunction("lockstep.fail"));
  LOCKSTEP_RETURN_IF_ERROR(client.session.Call(fail, "chaos", plan.victim).status());
  LOCKSTEP_RETURN_IF_ERROR(
      ExpectCause(client, RankName(plan.victim) + " threw", [&](const Status& status) {
        const auto failure = FailureOf(status);
        return failure.has_value() && failure->rank == plan.victim &&
               failure->function == "lockstep.fail" && Says(status, "chaos");
      }));
  return Recover(client, mark, plan.steps);
}

Status DisagreeAndRecover(Client& client, const Plan& plan) {
  LOCKSTEP_RETURN_IF_ERROR(client.TakeSteps(plan.steps));
  const uint64_t mark = client.program.Mark();
  LOCKSTEP_RETURN_IF_ERROR(client.program.Disagree(plan.victim));
  LOCKSTEP_RETURN_IF_ERROR(
      ExpectCause(client, RankName(plan.victim) + " disagreed", [&](const Status& status) {
        return status.code() == StatusCode::kInvalidArgument &&
               Says(status, RankName(plan.victim) + " calls allreduce sum of 3 int64") &&
               Says(status, "allreduce sum of 4 int64");
      }));
  return Recover(client, mark, plan.steps);
}

Status ResetAndGoOn(Client& client, const Plan& plan) {
  LOCKSTEP_RETURN_IF_ERROR(client.TakeSteps(plan.steps));
  LOCKSTEP_RETURN_IF_ERROR(client.SyncAll());
  const uint64_t mark = client.program.Mark();
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef sleep, client.session.GetFunction("lockstep.sleep"));
  LOCKSTEP_RETURN_IF_ERROR(client.session.Call(sleep, 3600.0, plan.victim).status());
  LOCKSTEP_RETURN_IF_ERROR(client.session.Barrier());
  LOCKSTEP_RETURN_IF_ERROR(client.session.Flush());
  return Recover(client, mark, plan.steps);
}

// Works until the loss of a process ends it; `mark` becomes where nothing was under way last.
Status WorkUntilLost(Client& client, uint64_t* mark) {
  Status status;
  const Deadline deadline = Deadline::After(kLongestCall);
  while (status.ok() && !deadline.Expired()) {
    *mark = client.program.Mark();
    status = client.TakeSteps(1);
    if (status.ok()) status = client.SyncAll();
  }
  return status;
}

// The connection breaks while the program goes on. What was on its way is lost and told, or nothing
// was, and all is right.
Status BeCutOffAndRecover(Client& client, const Plan& plan) {
  LOCKSTEP_RETURN_IF_ERROR(client.TakeSteps(plan.steps));
  LOCKSTEP_RETURN_IF_ERROR(client.SyncAll());
  const uint64_t mark = client.program.Mark();
  Status status = client.TakeSteps(plan.steps / 2);
  LOCKSTEP_RETURN_IF_ERROR(status);
  client.wire->Cut();
  status = client.TakeSteps(plan.steps - plan.steps / 2);
  if (status.ok()) status = client.SyncAll();
  // Should nobody have missed anything yet: until both have counted.
  std::this_thread::sleep_for(kCountedWithin);
  if (status.ok()) status = client.SyncAll();
  if (status.ok()) return RunToTheEnd(client, plan.steps);
  if (status.code() != StatusCode::kUnavailable && status.code() != StatusCode::kDataLoss) {
    return Violation("the connection broke, but the client read: ", status.ToString());
  }
  return Recover(client, mark, plan.steps);
}

// The connection stands still for a while, for less than a lease: nothing is lost, and nobody says
// so.
Status BeHeldUp(Client& client, const Plan& plan) {
  LOCKSTEP_RETURN_IF_ERROR(client.TakeSteps(plan.steps));
  client.wire->HoldUp(plan.hold_up);
  return RunToTheEnd(client, plan.steps);
}

Status LoseAWorker(Client& client, const Plan& plan, uint64_t* mark) {
  const Status status = WorkUntilLost(client, mark);
  const std::string how = plan.fault == Fault::kStop ? "is stopped" : "killed by signal 9";
  const auto is_cause = [&](const Status& told) {
    return told.code() == StatusCode::kUnavailable && Says(told, RankName(plan.victim)) &&
           Says(told, how);
  };
  if (!is_cause(status)) {
    return Violation(RankName(plan.victim), " is lost, but the client read: ", status.ToString());
  }
  if (client.SyncAll().ok()) {
    return Violation("a session goes on although ", RankName(plan.victim), " is lost");
  }
  return OkStatus();
}

Status LoseAWorkerAndRecover(Client& client, const Plan& plan) {
  uint64_t mark = 0;
  LOCKSTEP_RETURN_IF_ERROR(LoseAWorker(client, plan, &mark));
  LOCKSTEP_RETURN_IF_ERROR(client.Timed([&] { return client.session.AwaitWorkers(kLongestCall); }));
  client.program.ForgetSince(mark);
  LOCKSTEP_RETURN_IF_ERROR(client.program.ForgetLost(plan.victim));
  return Recover(client, mark, plan.steps);
}

Status LoseTheControllerAndRecover(Client& client, const Plan& plan) {
  uint64_t mark = 0;
  const Status status = WorkUntilLost(client, &mark);
  if (status.code() != StatusCode::kUnavailable && status.code() != StatusCode::kDataLoss) {
    return Violation("the controller was killed, but the client read: ", status.ToString());
  }
  LOCKSTEP_RETURN_IF_ERROR(client.Timed([&] { return client.session.AwaitWorkers(kLongestCall); }));
  return Recover(client, mark, plan.steps);
}

}  // namespace

Status RunToTheEnd(Client& client, int steps) {
  LOCKSTEP_RETURN_IF_ERROR(client.TakeSteps(steps));
  LOCKSTEP_RETURN_IF_ERROR(client.SyncAll());
  return client.program.CheckAll();
}

Status RunFault(Client& client, const Plan& plan) {
  uint64_t mark = 0;
  switch (plan.fault) {
    case Fault::kThrow:
      return ThrowAndRecover(client, plan);
    case Fault::kDisagree:
      return DisagreeAndRecover(client, plan);
    case Fault::kReset:
      return ResetAndGoOn(client, plan);
    case Fault::kCut:
      return BeCutOffAndRecover(client, plan);
    case Fault::kDelay:
      return BeHeldUp(client, plan);
    case Fault::kKill:
    case Fault::kStop:
      return LoseAWorker(client, plan, &mark);
    case Fault::kReplace:
      return LoseAWorkerAndRecover(client, plan);
    case Fault::kRestart:
      return LoseTheControllerAndRecover(client, plan);
    case Fault::kNone:
    case Fault::kVanish:
      break;
  }
  return RunToTheEnd(client, plan.steps);
}

}  // namespace lockstep::chaos
