#include "tests/chaos/plan.h"

#include <iterator>
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
    case Fault::kPause:
      return "a wire is cut, and mended in time";
    case Fault::kPartition:
      return "a wire is cut, and mended too late";
    case Fault::kCutForGood:
      return "a wire is cut for good";
    case Fault::kDropIncoming:
      return "a host hears nothing";
    case Fault::kIsolateController:
      return "the controller's wire is cut, and mended too late";
    case Fault::kSeparateHosts:
      return "two hosts lose each other";
    case Fault::kPowerCut:
      return "a host vanishes and boots again";
    case Fault::kLateHost:
      return "a host joins late";
  }
  return "";
}

// Those of the network one after the other, so that a few rounds have them all, and between them
// what happens on one host, too.
Fault FaultOnHosts(uint64_t seed, Random& random) {
  constexpr Fault kOfHosts[] = {
      Fault::kPause,        Fault::kPartition,         Fault::kCutForGood,
      Fault::kDropIncoming, Fault::kIsolateController, Fault::kSeparateHosts,
      Fault::kPowerCut,     Fault::kLateHost};
  constexpr Fault kOfAny[] = {Fault::kNone,  Fault::kThrow,   Fault::kDisagree,
                              Fault::kReset, Fault::kVanish,  Fault::kCut,
                              Fault::kDelay, Fault::kReplace, Fault::kRestart};
  const uint64_t turn = seed % 13;
  if (turn < std::size(kOfHosts)) return kOfHosts[turn];
  return kOfAny[Between(random, 0, std::ssize(kOfAny) - 1)];
}

bool HitsAHost(Fault fault) { return fault >= Fault::kPause; }

}  // namespace

std::vector<Rank> Plan::LostRanks() const {
  if (!LosesHosts(fault)) return {victim};
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < workers; ++rank) {
    if (HostOf(rank) == host || fault == Fault::kIsolateController) ranks.push_back(rank);
  }
  return ranks;
}

std::string Plan::Describe() const {
  std::ostringstream text;
  text << "seed " << seed << ": " << workers << (processes ? " processes" : " threads");
  if (hosts > 0) text << " on " << hosts << " hosts";
  text << ", " << sessions << " sessions, " << steps << " steps, ";
  if (rings) text << "commands by ring" << (mixed ? " to some, " : ", ");
  if (processes && hosts == 0) text << (keys ? "keys, " : "no keys, ");
  if (relays) text << "commands through relays, ";
  if (copies) text << "copies, ";
  if (wires == WireQuality::kLossy) text << "1 in " << one_in << " packets lost, ";
  if (wires == WireQuality::kLowBandwidth) text << mbit << " Mbit/s, ";
  if (wires == WireQuality::kLongDelay) text << length.count() << " ms of wire at each host, ";
  text << Name(fault);
  if (fault == Fault::kSeparateHosts) {
    text << " (hosts " << host << " and " << other << ")";
  } else if (HitsAHost(fault)) {
    text << " (host " << host << ")";
  } else if (fault != Fault::kNone) {
    text << " (rank " << victim << ")";
  }
  return text.str();
}

Plan PlanOf(uint64_t seed) {
  Random random(seed);
  Plan plan;
  plan.seed = seed;
  plan.workers = static_cast<int>(Between(random, 2, 8));
  plan.sessions = static_cast<int>(Between(random, 1, 3));
  plan.fault = static_cast<Fault>(Between(random, 0, kFaultsOfOneHost - 1));
  plan.processes = HitsAll(plan.fault) || Between(random, 0, 2) == 0;
  plan.victim = static_cast<int>(Between(random, 0, plan.workers - 1));
  plan.steps = static_cast<int>(Between(random, 1, 40));
  plan.hold_up = std::chrono::milliseconds(Between(random, 1, 600));
  plan.rings = seed % 2 == 1;
  plan.mixed = seed % 4 == 3;
  plan.relays = seed % 4 == 0;
  plan.keys = seed / 8 % 2 == 0;
  return plan;
}

Plan PlanOnHosts(uint64_t seed) {
  Random random(seed);
  Plan plan;
  plan.seed = seed;
  plan.hosts = static_cast<int>(Between(random, 2, 3));
  plan.workers = 2 * plan.hosts;
  plan.processes = true;
  plan.sessions = static_cast<int>(Between(random, 1, 2));
  plan.fault = FaultOnHosts(seed, random);
  plan.victim = static_cast<int>(Between(random, 0, plan.workers - 1));
  plan.host = plan.HostOf(plan.victim);
  // The controller's is the one after the workers'.
  const bool pause_controller = plan.fault == Fault::kPause && Between(random, 0, 3) == 0;
  if (pause_controller || plan.fault == Fault::kIsolateController) plan.host = plan.hosts;
  plan.other = (plan.host + 1) % plan.hosts;
  plan.steps = static_cast<int>(Between(random, 1, 30));
  plan.hold_up = std::chrono::milliseconds(Between(random, 1, 600));
  plan.copies = Between(random, 0, 1) == 0;
  plan.wires = static_cast<WireQuality>(Between(random, 0, 3));
  // Where packets are lost, a short cut may turn into a long one.
  const bool is_short = plan.fault == Fault::kPause || HitsTheWire(plan.fault);
  if (is_short && plan.wires == WireQuality::kLossy) plan.wires = WireQuality::kGood;
  plan.one_in = static_cast<int>(Between(random, 100, 500));
  plan.mbit = static_cast<int>(Between(random, 200, 800));
  plan.length = std::chrono::milliseconds(Between(random, 1, 10));
  plan.delay = std::chrono::milliseconds(Between(random, 0, 500));
  return plan;
}

}  // namespace lockstep::chaos
