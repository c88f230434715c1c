#include "tests/chaos/plan.h"

#include <sstream>

#include "tests/chaos/random_program.h"

namespace lockstep::chaos {
namespace {

const char* Name(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return "no fault";
    case Fault::kThrow:
      return "a function throws";
    case Fault::kDisagree:
      return "a rank disagrees";
    case Fault::kReset:
      return "a client resets";
    case Fault::kVanish:
      return "a client vanishes";
    case Fault::kCut:
      return "a client's connection breaks";
    case Fault::kDelay:
      return "a client's connection stands still";
    case Fault::kKill:
      return "a worker is killed";
    case Fault::kStop:
      return "a worker is stopped";
    case Fault::kReplace:
      return "a worker is killed and replaced";
    case Fault::kRestart:
      return "the controller is killed and restarted";
  }
  return "";
}

}  // namespace

std::string Plan::Describe() const {
  std::ostringstream text;
  text << "seed " << seed << ": " << workers << (processes ? " processes" : " threads") << ", "
       << sessions << " sessions, " << steps << " steps, " << Name(fault);
  if (fault != Fault::kNone) text << " (rank " << victim << ")";
  return text.str();
}

Plan PlanOf(uint64_t seed) {
  Random random(seed);
  Plan plan;
  plan.seed = seed;
  plan.workers = static_cast<int>(Between(random, 2, 8));
  plan.sessions = static_cast<int>(Between(random, 1, 3));
  plan.fault = static_cast<Fault>(Between(random, 0, kFaults - 1));
  plan.processes = HitsAll(plan.fault) || Between(random, 0, 2) == 0;
  plan.victim = static_cast<int>(Between(random, 0, plan.workers - 1));
  plan.steps = static_cast<int>(Between(random, 1, 40));
  plan.hold_up = std::chrono::milliseconds(Between(random, 1, 600));
  return plan;
}

}  // namespace lockstep::chaos
