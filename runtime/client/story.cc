#include "runtime/client/story.h"

#include <algorithm>
#include <optional>

#include "runtime/base/rank_text.h"

namespace lockstep {
namespace {

using Kind = WorkerActivity::Kind;

// All workers are sent the same batches in the same order, and the commands of a batch come in
// order: whoever waits in a collective waits for those that have not come as far.
bool IsBehind(const WorkerActivity& a, const WorkerActivity& b) {
  if (a.received != b.received) return a.received < b.received;
  if (a.kind == Kind::kNone) return false;  // between two batches it is ahead of who executes one
  return a.session == b.session && a.command < b.command;
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

// The workers answer at different moments: only who is waited for at length is behind.
bool HasBeenWaitedFor(const Culprit& culprit, const ClusterStatus& status) {
  constexpr std::chrono::milliseconds kMoment{100};
  return std::any_of(culprit.waiting.begin(), culprit.waiting.end(), [&](Rank rank) {
    return status.workers[static_cast<size_t>(rank)].activity.since >= kMoment;
  });
}

std::optional<Culprit> CulpritOf(const WorkerStatus& worker, const ClusterStatus& status) {
  Culprit culprit;
  culprit.rank = worker.rank;
  culprit.stuck = worker.stuck;
  for (const WorkerStatus& other : status.workers) {
    if (WaitsFor(other, worker)) culprit.waiting.push_back(other.rank);
  }
  const bool lost = worker.state == WorkerState::kLost;
  if (!lost && worker.state != WorkerState::kReady) return std::nullopt;
  if (lost) {
    culprit.kind = Culprit::Kind::kLost;
  } else if (!worker.reported) {
    culprit.kind = Culprit::Kind::kSilent;
  } else if (worker.activity.kind == Kind::kCommand) {
    culprit.kind = Culprit::Kind::kBusy;
  } else if (HasBeenWaitedFor(culprit, status)) {
    culprit.kind = Culprit::Kind::kBehind;
  } else {
    return std::nullopt;
  }
  return culprit;
}

std::string Summary(const ClusterStatus& status, const ClusterStory& story) {
  if (!story.culprits.empty()) {
    const Culprit& first = story.culprits.front();
    const std::string rank = ListRanksWithAnd({first.rank});
    switch (first.kind) {
      case Culprit::Kind::kLost:
        return rank + " is lost";
      case Culprit::Kind::kSilent:
        return rank + " does not answer";
      case Culprit::Kind::kBusy:
        return rank + (first.stuck ? " is stuck" : " is busy");
      case Culprit::Kind::kBehind:
        return rank + " is behind";
    }
  }
  if (!story.together.empty())
    return ListRanksWithAnd(story.together) + " are in a collective, nobody is late";
  if (!status.IsReady()) return "the cluster is not complete";
  return "nothing is executed: the workers wait for commands";
}

}  // namespace

ClusterStory TellStory(const ClusterStatus& status) {
  ClusterStory story;
  for (const WorkerStatus& worker : status.workers) {
    std::optional<Culprit> culprit = CulpritOf(worker, status);
    if (culprit.has_value()) story.culprits.push_back(*std::move(culprit));
  }
  std::stable_sort(story.culprits.begin(), story.culprits.end(),
                   [](const Culprit& a, const Culprit& b) {
                     if (a.waiting.size() != b.waiting.size()) {
                       return a.waiting.size() > b.waiting.size();
                     }
                     return a.kind != b.kind ? a.kind < b.kind : a.stuck && !b.stuck;
                   });
  if (story.culprits.empty()) {
    for (const WorkerStatus& worker : status.workers) {
      const bool in_collective = worker.activity.kind == Kind::kCollective;
      if (in_collective) story.together.push_back(worker.rank);
    }
  }
  story.summary = Summary(status, story);
  return story;
}

}  // namespace lockstep
