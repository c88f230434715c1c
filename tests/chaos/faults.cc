#include "tests/chaos/faults.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/client/failure.h"

namespace lockstep::chaos {
namespace {

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
  return client.Recover(mark, plan.steps);
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
  return client.Recover(mark, plan.steps);
}

Status ResetAndGoOn(Client& client, const Plan& plan) {
  LOCKSTEP_RETURN_IF_ERROR(client.TakeSteps(plan.steps));
  LOCKSTEP_RETURN_IF_ERROR(client.SyncAll());
  const uint64_t mark = client.program.Mark();
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef sleep, client.session.GetFunction("lockstep.sleep"));
  LOCKSTEP_RETURN_IF_ERROR(client.session.Call(sleep, 3600.0, plan.victim).status());
  LOCKSTEP_RETURN_IF_ERROR(client.session.Barrier());
  LOCKSTEP_RETURN_IF_ERROR(client.session.Flush());
  return client.Recover(mark, plan.steps);
}

// The connection breaks while the program goes on. What was on its way is lost and told, or nothing
// was, and all is right.
Status BeCutOffAndRecover(Client& client, const Plan& plan) {
  LOCKSTEP_RETURN_IF_ERROR(client.TakeSteps(plan.steps));
  LOCKSTEP_RETURN_IF_ERROR(client.SyncAll());
  const uint64_t mark = client.program.Mark();
  Status status = client.TakeSteps(plan.steps / 2);
  LOCKSTEP_RETURN_IF_ERROR(status);
  client.options.wire->Cut();
  status = client.TakeSteps(plan.steps - plan.steps / 2);
  if (status.ok()) status = client.SyncAll();
  // If no side has missed anything yet: until both have counted (a quarter of a lease).
  std::this_thread::sleep_for(plan.Lease() * 2 / 5);
  if (status.ok()) status = client.SyncAll();
  if (status.ok()) return client.RunToTheEnd(plan.steps);
  if (status.code() != StatusCode::kUnavailable && status.code() != StatusCode::kDataLoss) {
    return Violation("the connection broke, but the client read: ", status.ToString());
  }
  return client.Recover(mark, plan.steps);
}

// The connection stands still for a while, for less than a lease: nothing is lost, and no side says
// so.
Status BeHeldUp(Client& client, const Plan& plan) {
  LOCKSTEP_RETURN_IF_ERROR(client.TakeSteps(plan.steps));
  client.options.wire->HoldUp(plan.hold_up);
  return client.RunToTheEnd(plan.steps);
}

// Whether it tells of a loss that the plan brings about.
bool TellsOfTheLoss(const Status& told, const Plan& plan) {
  if (told.code() != StatusCode::kUnavailable) return false;
  const std::vector<Rank> lost = plan.LostRanks();
  return std::any_of(lost.begin(), lost.end(), [&](Rank rank) {
    if (!Says(told, RankName(rank))) return false;
    if (plan.hosts == 0) {
      return Says(told, plan.fault == Fault::kStop ? "is stopped" : "killed by signal 9");
    }
    if (Says(told, "is lost")) return Says(told, "host" + std::to_string(plan.HostOf(rank)));
    // Peers may be the first to see that a connection ends, and not how.
    const bool ends_connections = plan.fault == Fault::kReplace || plan.fault == Fault::kPowerCut;
    return ends_connections && Says(told, RankName(rank) + " ended during");
  });
}

Status LoseWorkers(Client& client, const Plan& plan, uint64_t* mark) {
  const Status status = client.WorkUntilItFails(mark);
  if (!TellsOfTheLoss(status, plan)) {
    return Violation("workers are lost, but the client read: ", status.ToString());
  }
  if (client.SyncAll().ok()) return Violation("a session goes on although workers are lost");
  return OkStatus();
}

Status LoseWorkersAndRecover(Client& client, const Plan& plan) {
  uint64_t mark = 0;
  LOCKSTEP_RETURN_IF_ERROR(LoseWorkers(client, plan, &mark));
  LOCKSTEP_RETURN_IF_ERROR(client.AwaitWorkers());
  client.program.ForgetSince(mark);
  LOCKSTEP_RETURN_IF_ERROR(client.program.ForgetLost(plan.LostRanks()));
  return client.Recover(mark, plan.steps);
}

Status LoseTheControllerAndRecover(Client& client, const Plan& plan) {
  uint64_t mark = 0;
  const Status status = client.WorkUntilItFails(&mark);
  if (status.code() != StatusCode::kUnavailable && status.code() != StatusCode::kDataLoss) {
    return Violation("the controller was killed, but the client read: ", status.ToString());
  }
  LOCKSTEP_RETURN_IF_ERROR(client.AwaitWorkers());
  return client.Recover(mark, plan.steps);
}

// A wire that is mended in time is only a delay.
Status BeHeldUpByAWire(Client& client, const Plan& plan) {
  uint64_t mark = 0;
  LOCKSTEP_RETURN_IF_ERROR(client.WorkWhile([&] { return !client.IsRepaired(); }, &mark));
  return client.RunToTheEnd(plan.steps);
}

// Whether a rank says that it has waited too long for another, or, where a communicator is made
// only now, that it has tried to reach it for too long.
bool TellsOfTheSeparation(const Status& told) {
  return FailureOf(told).has_value() && told.code() == StatusCode::kDeadlineExceeded &&
         (Says(told, "did not come to") || Says(told, "cannot be reached"));
}

// No worker is lost, but hosts do not reach each other.
Status BeSeparatedAndRecover(Client& client, const Plan& plan) {
  uint64_t mark = 0;
  const Status status = client.WorkUntilItFails(&mark);
  if (!TellsOfTheSeparation(status)) {
    return Violation("hosts do not reach each other, but the client read: ", status.ToString());
  }
  LOCKSTEP_RETURN_IF_ERROR(client.AwaitRepair());
  return client.Recover(mark, plan.steps);
}

}  // namespace

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
    case Fault::kCutForGood:
      return LoseWorkers(client, plan, &mark);
    case Fault::kReplace:
    case Fault::kPartition:
    case Fault::kDropIncoming:
    case Fault::kIsolateController:
    case Fault::kPowerCut:
      return LoseWorkersAndRecover(client, plan);
    case Fault::kRestart:
      return LoseTheControllerAndRecover(client, plan);
    case Fault::kPause:
      return BeHeldUpByAWire(client, plan);
    case Fault::kSeparateHosts:
      return BeSeparatedAndRecover(client, plan);
    case Fault::kNone:
    case Fault::kVanish:
    case Fault::kLateHost:
      break;
  }
  return client.RunToTheEnd(plan.steps);
}

}  // namespace lockstep::chaos
