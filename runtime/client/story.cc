#include "runtime/client/story.h"

#include <algorithm>
#include <optional>

namespace lockstep {
namespace {

using Kind = WorkerActivity::Kind;

std::optional<Culprit> CulpritOf(const WorkerStatus& worker) {
  Culprit culprit;
  culprit.rank = worker.rank;
  culprit.stuck = worker.stuck;
  if (worker.state == WorkerState::kLost) {
    culprit.kind = Culprit::Kind::kLost;
  } else if (worker.state == WorkerState::kReady && !worker.reported) {
    culprit.kind = Culprit::Kind::kSilent;
  } else if (worker.state == WorkerState::kReady && worker.activity.kind == Kind::kCommand) {
    culprit.kind = Culprit::Kind::kBusy;
  } else {
    return std::nullopt;
  }
  return culprit;
}

// All workers are sent the same batches in the same order, and the commands of a batch come in
// order: whoever waits in a collective waits for those that have not come as far.
bool IsBehind(const WorkerActivity& a, const WorkerActivity& b) {
  if (a.received != b.received) return a.received < b.received;
  return a.session == b.session && a.command < b.command;
}

std::string Summary(const ClusterStatus& status, const ClusterStory& story) {
  if (!story.culprits.empty()) {
    const Culprit& first = story.culprits.front();
    const std::string rank = Ranks({first.rank});
    switch (first.kind) {
      case Culprit::Kind::kLost:
        return rank + " is lost";
      case Culprit::Kind::kSilent:
        return rank + " does not answer";
      case Culprit::Kind::kBusy:
        return rank + (first.stuck ? " is stuck" : " is busy");
    }
  }
  if (!story.together.empty())
    return Ranks(story.together) + " are in a collective, nobody is late";
  if (!status.IsReady()) return "the cluster is not complete";
  return "nothing is executed: the workers wait for commands";
}

}  // namespace

ClusterStory TellStory(const ClusterStatus& status) {
  ClusterStory story;
  for (const WorkerStatus& worker : status.workers) {
    std::optional<Culprit> culprit = CulpritOf(worker);
    if (!culprit.has_value()) continue;
    for (const WorkerStatus& other : status.workers) {
      if (other.state != WorkerState::kReady || other.activity.kind != Kind::kCollective) continue;
      // A worker that says nothing may be anywhere.
      if (culprit->kind != Culprit::Kind::kBusy || IsBehind(worker.activity, other.activity)) {
        culprit->waiting.push_back(other.rank);
      }
    }
    story.culprits.push_back(*std::move(culprit));
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

std::string Ranks(const std::vector<Rank>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

}  // namespace lockstep
