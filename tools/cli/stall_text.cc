#include "tools/cli/stall_text.h"

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/base/host_identity.h"
#include "runtime/base/quantity.h"
#include "runtime/base/rank_text.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

const WorkerStatus& Find(const ClusterStatus& status, Rank rank) {
  return status.workers.at(static_cast<size_t>(rank));
}

// "rank 3 (node7:4711)", "ranks 0-63 (node7, node8)"
std::string Label(const ClusterStatus& status, const std::vector<Rank>& ranks) {
  const WorkerStatus& first = Find(status, ranks.front());
  if (ranks.size() == 1) {
    return ListRanks(ranks) + " (" + ProcessLabel(first.host, first.pid) + ")";
  }
  std::vector<std::string> hosts;
  for (const Rank rank : ranks) hosts.push_back(Find(status, rank).host);
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  constexpr size_t kMostHosts = 4;
  std::string names;
  for (size_t i = 0; i < hosts.size() && i < kMostHosts; ++i) {
    names += (i == 0 ? "" : ", ") + hosts[i];
  }
  if (hosts.size() > kMostHosts) {
    names += " and " + std::to_string(hosts.size() - kMostHosts) + " more hosts";
  }
  return ListRanks(ranks) + " (" + names + ")";
}

bool IsSameWork(const WorkerStatus& a, const WorkerStatus& b) {
  return a.activity.kind == b.activity.kind && a.activity.session == b.activity.session &&
         a.activity.command == b.activity.command && a.activity.what == b.activity.what &&
         a.activity.place == b.activity.place && a.stack == b.stack && a.no_stack == b.no_stack;
}

// Blockers of which there is the same to say.
struct BlockerGroup {
  const Blocker* blocker;  // the one that has been at it for longest
  std::vector<Rank> ranks;
};

// Why it is lost; of several, without what tells one from the other.
std::string LostBecause(const WorkerStatus& worker, bool is_one) {
  const std::string its_process = "its process " + std::to_string(worker.pid);
  std::string reason = worker.reason;
  if (!is_one && reason.starts_with(its_process)) {
    reason.replace(0, its_process.size(), "each process");
  }
  return reason;
}

bool IsSame(const ClusterStatus& status, const Blocker& a, const Blocker& b) {
  const WorkerStatus& x = Find(status, a.rank);
  const WorkerStatus& y = Find(status, b.rank);
  return a.kind == b.kind && a.stuck == b.stuck && a.waiting == b.waiting &&
         LostBecause(x, false) == LostBecause(y, false) && IsSameWork(x, y);
}

// In the order of the diagnosis.
std::vector<BlockerGroup> Group(const ClusterStatus& status, const StallDiagnosis& diagnosis) {
  std::vector<BlockerGroup> groups;
  for (const Blocker& blocker : diagnosis.blockers) {
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const BlockerGroup& group) {
      return IsSame(status, *group.blocker, blocker);
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
                                             const std::vector<Rank>& ranks) {
  std::vector<std::vector<Rank>> groups;
  for (const Rank rank : ranks) {
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return IsSameWork(Find(status, group.front()), Find(status, rank));
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
std::string DescribeBlocker(const Blocker& blocker, const WorkerStatus& worker, bool is_one) {
  const std::string doing = worker.activity.Describe();
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

void PrintStack(std::ostream& out, const text::Style& style, const WorkerStatus& worker) {
  if (!worker.no_stack.empty()) {
    out << style.Paint(text::Tint::kDim, "  stack    ") << worker.no_stack << '\n';
  }
  for (size_t i = 0; i < worker.stack.size(); ++i) {
    out << style.Paint(text::Tint::kDim, i == 0 ? "  stack    " : "           ") << worker.stack[i]
        << '\n';
  }
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
                    const StallDiagnosis& diagnosis) {
  out << style.Paint(text::Tint::kBold, diagnosis.summary) << '\n';
  bool replacing_is_told = false;
  for (const BlockerGroup& group : Group(status, diagnosis)) {
    const Blocker& blocker = *group.blocker;
    const WorkerStatus& worker = Find(status, blocker.rank);
    const bool grave = blocker.stuck || blocker.kind != Blocker::Kind::kBusy;
    out << '\n'
        << style.Paint(grave ? text::Tint::kRed : text::Tint::kYellow, Label(status, group.ranks))
        << ' ' << DescribeBlocker(blocker, worker, group.ranks.size() == 1) << '\n';
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
    PrintStack(out, style, worker);
  }
  for (const std::vector<Rank>& ranks : GroupTogether(status, diagnosis.together)) {
    const WorkerStatus& worker = Find(status, ranks.front());
    out << '\n'
        << Label(status, ranks) << (ranks.size() == 1 ? " executes " : " execute ")
        << worker.activity.Describe() << '\n';
    PrintStack(out, style, worker);
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
