#include "tools/cli/stall_text.h"

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/base/host_identity.h"
#include "runtime/base/quantity.h"
#include "runtime/base/rank_text.h"
#include "tools/cli/stack_text.h"
#include "tools/cli/worker_groups.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

const WorkerStatus& Find(const ClusterStatus& status, Rank rank) {
  return status.workers.at(static_cast<size_t>(rank));
}

std::vector<const WorkerStatus*> WorkersOf(const ClusterStatus& status,
                                           const std::vector<Rank>& ranks) {
  std::vector<const WorkerStatus*> workers;
  for (const Rank rank : ranks) workers.push_back(&Find(status, rank));
  return workers;
}

// "rank 3 (node7:4711)", "ranks 0-63 (node7, node8)"
std::string Label(const std::vector<const WorkerStatus*>& workers, const std::vector<Rank>& ranks) {
  constexpr size_t kMostHosts = 4;
  const WorkerStatus& first = *workers.front();
  const std::string where =
      ranks.size() == 1 ? ProcessLabel(first.host, first.pid) : HostsOf(workers, kMostHosts);
  return ListRanks(ranks) + " (" + where + ")";
}

// Blockers of which there is the same to say.
struct BlockerGroup {
  const Blocker* blocker;  // the one that has been at it for longest
  std::vector<Rank> ranks;
};

bool IsSame(const ClusterStatus& status, const Blocker& a, const Blocker& b) {
  const WorkerStatus& x = Find(status, a.rank);
  const WorkerStatus& y = Find(status, b.rank);
  return a.kind == b.kind && a.stuck == b.stuck && IsSameLoss(x, y) && IsSameWork(x, y) &&
         a.waiting == b.waiting;
}

// In the order of the diagnosis.
std::vector<BlockerGroup> Group(const ClusterStatus& status, const StallDiagnosis& diagnosis,
                                bool each) {
  std::vector<BlockerGroup> groups;
  for (const Blocker& blocker : diagnosis.blockers) {
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const BlockerGroup& group) {
      return !each && IsSame(status, *group.blocker, blocker);
    });
    if (found == groups.end()) {
      groups.push_back({&blocker, {blocker.rank}});
      continue;
    }
    found->ranks.push_back(blocker.rank);
    const auto since = [&](Rank rank) { return Find(status, rank).activity.since; };
    if (since(blocker.rank) > since(found->blocker->rank)) found->blocker = &blocker;
  }
  for (BlockerGroup& group : groups) std::sort(group.ranks.begin(), group.ranks.end());
  return groups;
}

std::vector<std::vector<Rank>> GroupTogether(const ClusterStatus& status,
                                             const std::vector<Rank>& ranks, bool each) {
  std::vector<std::vector<Rank>> groups;
  for (const Rank rank : ranks) {
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return !each && IsSameWork(Find(status, group.front()), Find(status, rank));
    });
    if (found == groups.end()) {
      groups.push_back({rank});
    } else {
      found->push_back(rank);
    }
  }
  return groups;
}

// What is known of how long the function takes, after what the worker executes.
std::string DescribeHistory(const Blocker& blocker, const WorkerStatus& worker) {
  const std::string longest = RoundedDuration(worker.longest_before);
  if (worker.longest_before.count() > 0) {
    return blocker.stuck ? "; before, this function took " + longest + " at most"
                         : "; it has taken up to " + longest + " before";
  }
  return blocker.stuck ? "; no earlier call of it was long enough to be seen" : "";
}

// What is the matter with blockers, after their name.
std::string DescribeBlocker(const Blocker& blocker, const WorkerStatus& worker,
                            const std::vector<const WorkerStatus*>& workers) {
  const bool is_one = workers.size() == 1;
  const std::string doing = DescribeWork(workers);
  const bool idle = worker.activity.kind == WorkerActivity::Kind::kNone;
  const std::string last_seen =
      is_one ? "; it was last seen executing " : "; they were last seen executing ";
  switch (blocker.kind) {
    case Blocker::Kind::kEnded:
      return (is_one ? "still executes " : "still execute ") + doing + ", which has ended; " +
             (is_one ? "it does not give up, and holds all sessions up"
                     : "they do not give up, and hold all sessions up");
    case Blocker::Kind::kLost:
      return (is_one ? "is lost: " : "are lost: ") + LostBecause(worker, is_one) +
             (idle ? "" : last_seen + doing);
    case Blocker::Kind::kSilent:
      return (is_one ? "does not answer; its" : "do not answer; the oldest") +
             std::string(" last heartbeat came ") + RoundedDuration(worker.heartbeat_age) + " ago" +
             (idle ? "" : last_seen + doing);
    case Blocker::Kind::kBusy:
      if (!blocker.stuck)
        return (is_one ? "executes " : "execute ") + doing + DescribeHistory(blocker, worker);
      return (is_one ? "is " : "are ") +
             std::string(worker.longest_before.count() > 0 ? "stuck" : "stuck, or slow") +
             (is_one ? ": it executes " : ": they execute ") + doing +
             DescribeHistory(blocker, worker);
    case Blocker::Kind::kBehind:
      return (is_one ? "is behind: it executes " : "are behind: they execute ") + doing +
             ", batch " + std::to_string(worker.activity.received) + " was the last that it took";
  }
  return "";
}

const char* Name(Blocker::Kind kind) {
  switch (kind) {
    case Blocker::Kind::kEnded:
      return "ended";
    case Blocker::Kind::kLost:
      return "lost";
    case Blocker::Kind::kSilent:
      return "silent";
    case Blocker::Kind::kBusy:
      return "busy";
    case Blocker::Kind::kBehind:
      return "behind";
  }
  return "";
}

Json ActivityToJson(const WorkerActivity& activity) {
  if (activity.kind == WorkerActivity::Kind::kNone) return {};
  return {{"collective", activity.kind == WorkerActivity::Kind::kCollective},
          {"session", activity.session.value},
          {"command", activity.command},
          {"what", activity.what},
          {"place", activity.place},
          {"since_ms", activity.since.count()}};
}

}  // namespace

void PrintDiagnosis(std::ostream& out, const text::Style& style, const ClusterStatus& status,
                    const StallDiagnosis& diagnosis, bool each) {
  out << style.Paint(text::Tint::kBold, diagnosis.summary) << '\n';
  bool replacing_is_told = false;
  for (const BlockerGroup& group : Group(status, diagnosis, each)) {
    const Blocker& blocker = *group.blocker;
    const WorkerStatus& worker = Find(status, blocker.rank);
    const std::vector<const WorkerStatus*> workers = WorkersOf(status, group.ranks);
    const bool grave = blocker.stuck || blocker.kind != Blocker::Kind::kBusy;
    out << '\n'
        << style.Paint(grave ? text::Tint::kRed : text::Tint::kYellow, Label(workers, group.ranks))
        << ' ' << DescribeBlocker(blocker, worker, workers) << '\n';
    if (!blocker.waiting.empty()) {
      const WorkerActivity& theirs = Find(status, blocker.waiting.front()).activity;
      out << style.Paint(text::Tint::kDim, "  waiting  ") << ListRanks(blocker.waiting) << " in "
          << theirs.Describe() << '\n';
    }
    // All that are lost are replaced at once.
    const bool is_lost = blocker.kind == Blocker::Kind::kLost;
    const std::string advice =
        is_lost && replacing_is_told
            ? ""
            : AdviceFor(status, blocker.kind, is_lost ? status.LostRanks() : group.ranks);
    replacing_is_told = replacing_is_told || is_lost;
    if (!advice.empty()) {
      out << style.Paint(text::Tint::kDim, "  to do    ") << text::Printable(advice) << '\n';
    }
    PrintStacks(out, style, workers);
  }
  for (const std::vector<Rank>& ranks : GroupTogether(status, diagnosis.together, each)) {
    const std::vector<const WorkerStatus*> workers = WorkersOf(status, ranks);
    out << '\n'
        << Label(workers, ranks) << (ranks.size() == 1 ? " executes " : " execute ")
        << DescribeWork(workers) << '\n';
    PrintStacks(out, style, workers);
  }
  for (const SessionStatus& session : status.sessions) {
    if (session.error.empty()) continue;
    out << '\n'
        << style.Paint(text::Tint::kYellow, "session " + std::to_string(session.session.value))
        << " \"" << session.name << "\" (" << ProcessLabel(session.host, session.pid)
        << ") has failed: " << session.error << '\n';
  }
}

Json DiagnosisToJson(const ClusterStatus& status, const StallDiagnosis& diagnosis) {
  Json blockers = Json::array();
  for (const Blocker& blocker : diagnosis.blockers) {
    const WorkerStatus& worker = Find(status, blocker.rank);
    const std::string advice = AdviceFor(status, blocker.kind, {blocker.rank});
    blockers.push_back(
        {{"rank", blocker.rank},
         {"kind", Name(blocker.kind)},
         {"stuck", blocker.stuck},
         {"longest_before_ms",
          worker.longest_before.count() > 0 ? Json(worker.longest_before.count()) : Json()},
         {"host", worker.host},
         {"pid", worker.pid},
         {"reason", worker.reason.empty() ? Json() : Json(worker.reason)},
         {"doing", ActivityToJson(worker.activity)},
         {"advice", advice.empty() ? Json() : Json(advice)},
         {"waiting", blocker.waiting},
         {"stack", worker.stack},
         {"no_stack", worker.no_stack.empty() ? Json() : Json(worker.no_stack)}});
  }
  Json failed = Json::array();
  for (const SessionStatus& session : status.sessions) {
    if (session.error.empty()) continue;
    failed.push_back(
        {{"session", session.session.value}, {"name", session.name}, {"error", session.error}});
  }
  return {{"summary", diagnosis.summary},
          {"culprits", blockers},
          {"together", diagnosis.together},
          {"failed_sessions", failed}};
}

}  // namespace lockstep::cli
