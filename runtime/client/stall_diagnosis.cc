#include "runtime/client/stall_diagnosis.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/operations.h"
#include "runtime/base/rank_text.h"
#include "runtime/control/replacement_advice.h"

namespace lockstep {
namespace {

using Kind = WorkerActivity::Kind;

// All workers are sent the same batches in the same order, and the commands of a batch come in
// order: a worker that waits in a collective waits for those that have not come as far.
bool IsBehind(const WorkerActivity& a, const WorkerActivity& b) {
  if (a.received != b.received) return a.received < b.received;
  if (a.kind == Kind::kNone) return false;  // between two batches it is ahead of who executes one
  if (a.session != b.session) return false;
  // Only a plan has both in one command: the collective takes all of its members.
  const bool is_in_the_same_plan =
      a.command == b.command && a.kind == Kind::kCommand && b.kind == Kind::kCollective;
  return a.command < b.command || is_in_the_same_plan;
}

// `other` is in a collective that `worker` has a part in, and has yet to come to.
bool WaitsFor(const WorkerStatus& other, const WorkerStatus& worker) {
  const WorkerActivity& activity = other.activity;
  if (other.state != WorkerState::kReady || activity.kind != Kind::kCollective) return false;
  if (worker.rank < activity.first_rank || worker.rank > activity.last_rank) return false;
  // One that says nothing may be anywhere.
  const bool answers = worker.state == WorkerState::kReady && worker.reported;
  return !answers || IsBehind(worker.activity, activity);
}

// The workers answer at different moments: what lasts no longer may be over.
constexpr std::chrono::milliseconds kMoment{100};

// Only who is waited for at length is behind.
bool HasBeenWaitedFor(const Blocker& blocker, const ClusterStatus& status) {
  return std::any_of(blocker.waiting.begin(), blocker.waiting.end(), [&](Rank rank) {
    return status.workers[static_cast<size_t>(rank)].activity.since >= kMoment;
  });
}

std::optional<Blocker> BlockerOf(const WorkerStatus& worker, const ClusterStatus& status) {
  Blocker blocker;
  blocker.rank = worker.rank;
  for (const WorkerStatus& other : status.workers) {
    if (WaitsFor(other, worker)) blocker.waiting.push_back(other.rank);
  }
  const bool lost = worker.state == WorkerState::kLost;
  blocker.stuck = worker.stuck && !lost;
  if (!lost && worker.state != WorkerState::kReady) return std::nullopt;
  if (status.EndedSessionOf(worker) != nullptr) {
    blocker.kind = Blocker::Kind::kEnded;
  } else if (lost) {
    blocker.kind = Blocker::Kind::kLost;
  } else if (!worker.reported) {
    blocker.kind = Blocker::Kind::kSilent;
  } else if (worker.activity.kind == Kind::kCommand) {
    blocker.kind = Blocker::Kind::kBusy;
  } else if (HasBeenWaitedFor(blocker, status)) {
    blocker.kind = Blocker::Kind::kBehind;
  } else {
    return std::nullopt;
  }
  return blocker;
}

// The ranks of which there is as much to say in one line as of the first blocker.
std::vector<Rank> RanksLikeTheFirst(const ClusterStatus& status, const StallDiagnosis& diagnosis) {
  const Blocker& first = diagnosis.blockers.front();
  const auto activity_of = [&](Rank rank) -> const WorkerActivity& {
    return status.workers[static_cast<size_t>(rank)].activity;
  };
  std::vector<Rank> ranks;
  for (const Blocker& blocker : diagnosis.blockers) {
    if (blocker.kind != first.kind || blocker.stuck != first.stuck) continue;
    if (blocker.waiting.empty() != first.waiting.empty()) continue;
    const bool is_busy =
        blocker.kind == Blocker::Kind::kBusy || blocker.kind == Blocker::Kind::kEnded;
    if (is_busy && activity_of(blocker.rank).what != activity_of(first.rank).what) continue;
    ranks.push_back(blocker.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::string SummaryOfEnded(const std::string& ranks, bool is_one, const WorkerActivity& activity) {
  return ranks + (is_one ? " still executes " : " still execute ") +
         (activity.what.empty() ? "a command" : activity.WhatAndPlace()) + " of session " +
         std::to_string(activity.session.value) + ", which has ended; " +
         (is_one ? "it does not give up" : "they do not give up");
}

// Whether it is stuck is told by what its function took before, where that is known.
std::string SummaryOfBusy(const std::string& ranks, const std::string& are, const Blocker& first,
                          const WorkerStatus& worker) {
  const std::string in =
      worker.activity.what.empty() ? " in a command" : " in " + worker.activity.WhatAndPlace();
  if (first.stuck) {
    const bool has_history = worker.longest_before.count() > 0;
    return ranks + are + (has_history ? "stuck" : "stuck, or slow,") + in;
  }
  if (first.waiting.empty()) return "no rank is stuck: " + ranks + are + "busy" + in;
  return "no rank is stuck: the others wait for " + ranks + ", busy" + in;
}

// The operation between groups that all of `together` are in, while no rank is in its other half;
// null: they work. (Before the first message all ranks are in it: they connect.)
const OperationFacts* HalfAMessage(const ClusterStatus& status, const std::vector<Rank>& together) {
  if (together.empty() || together.size() == status.workers.size()) return nullptr;
  const auto activity_of = [&](Rank rank) -> const WorkerActivity& {
    return status.workers[static_cast<size_t>(rank)].activity;
  };
  const std::string& what = activity_of(together.front()).what;
  const OperationFacts* const facts = FindOperationNamed(what);
  if (facts == nullptr || facts->flow != DataFlow::kToNextGroup) return nullptr;
  const bool all_wait = std::all_of(together.begin(), together.end(), [&](Rank rank) {
    return activity_of(rank).what == what && activity_of(rank).since >= kMoment;
  });
  return all_wait ? facts : nullptr;
}

std::string_view OtherHalfOf(const OperationFacts& half) {
  const bool sends = half.kind == OperationKind::kSendToNextGroup;
  return FactsOf(sends ? OperationKind::kReceiveFromPreviousGroup : OperationKind::kSendToNextGroup)
      .name;
}

std::string Summary(const ClusterStatus& status, const StallDiagnosis& diagnosis) {
  if (!diagnosis.blockers.empty()) {
    const Blocker& first = diagnosis.blockers.front();
    const std::vector<Rank> like = RanksLikeTheFirst(status, diagnosis);
    const std::string ranks = ListRanks(like);
    const std::string are = like.size() == 1 ? " is " : " are ";
    switch (first.kind) {
      case Blocker::Kind::kEnded:
        return SummaryOfEnded(ranks, like.size() == 1,
                              status.workers[static_cast<size_t>(first.rank)].activity);
      case Blocker::Kind::kLost:
        return ranks + are + "lost";
      case Blocker::Kind::kSilent:
        return ranks + (like.size() == 1 ? " does not answer" : " do not answer");
      case Blocker::Kind::kBusy:
        return SummaryOfBusy(ranks, are, first, status.workers[static_cast<size_t>(first.rank)]);
      case Blocker::Kind::kBehind:
        return ranks + are + "behind";
    }
  }
  if (const OperationFacts* const half = HalfAMessage(status, diagnosis.together)) {
    return ListRanks(diagnosis.together) +
           (diagnosis.together.size() == 1 ? " waits in " : " wait in ") + std::string(half->name) +
           ", and no rank is in its other half: the program has not issued " +
           std::string(OtherHalfOf(*half)) + " yet";
  }
  if (!diagnosis.together.empty()) {
    return "no rank is stuck: " + ListRanks(diagnosis.together) +
           " are in a collective, and none is late";
  }
  if (!status.IsReady()) return "the cluster is not complete";
  return "no rank is stuck: nothing is executed, the workers wait for commands";
}

}  // namespace

StallDiagnosis DiagnoseStall(const ClusterStatus& status) {
  StallDiagnosis diagnosis;
  for (const WorkerStatus& worker : status.workers) {
    std::optional<Blocker> blocker = BlockerOf(worker, status);
    if (blocker.has_value()) diagnosis.blockers.push_back(*std::move(blocker));
  }
  // Of what many do the few that do something else are of interest.
  std::map<std::pair<uint32_t, std::string>, int> doing;
  const auto work_of = [&](const Blocker& blocker) -> int& {
    const WorkerActivity& activity = status.workers[static_cast<size_t>(blocker.rank)].activity;
    return doing[{activity.session.value, activity.WhatAndPlace()}];
  };
  for (const Blocker& blocker : diagnosis.blockers) ++work_of(blocker);
  std::stable_sort(diagnosis.blockers.begin(), diagnosis.blockers.end(),
                   [&](const Blocker& a, const Blocker& b) {
                     const bool a_ended = a.kind == Blocker::Kind::kEnded;
                     if (a_ended != (b.kind == Blocker::Kind::kEnded)) return a_ended;
                     if (a.waiting.size() != b.waiting.size()) {
                       return a.waiting.size() > b.waiting.size();
                     }
                     if (a.kind != b.kind) return a.kind < b.kind;
                     if (a.stuck != b.stuck) return a.stuck;
                     return work_of(a) < work_of(b);
                   });
  if (diagnosis.blockers.empty()) {
    for (const WorkerStatus& worker : status.workers) {
      const bool in_collective = worker.activity.kind == Kind::kCollective;
      if (in_collective) diagnosis.together.push_back(worker.rank);
    }
  }
  diagnosis.summary = Summary(status, diagnosis);
  return diagnosis;
}

std::string AdviceFor(const ClusterStatus& status, Blocker::Kind kind,
                      const std::vector<Rank>& ranks) {
  if (ranks.empty()) return "";
  const bool is_lost = kind == Blocker::Kind::kLost;
  if (!is_lost && kind != Blocker::Kind::kEnded) return "";
  std::vector<WorkerProcess> processes;
  for (const Rank rank : ranks) {
    const WorkerStatus& worker = status.workers[static_cast<size_t>(rank)];
    if (is_lost && !worker.may_live) continue;
    processes.push_back({rank, worker.host, worker.pid, worker.may_live});
  }
  const std::string replacing = HowToReplace(status.replacement_hint, ranks);
  if (processes.empty()) return replacing;
  // Those that may live are ended before any is replaced.
  std::string ending = HowToEnd("", processes);
  if (processes.size() < ranks.size()) {
    std::vector<Rank> live;
    for (const WorkerProcess& process : processes) live.push_back(process.rank);
    ending = ListRanks(live) + ": " + ending;
  }
  return replacing.empty() ? ending : ending + "; then " + replacing;
}

}  // namespace lockstep
