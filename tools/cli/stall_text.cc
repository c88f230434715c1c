#include "tools/cli/stall_text.h"

#include <string>

#include "runtime/base/host_identity.h"
#include "runtime/base/quantity.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

const WorkerStatus& Find(const ClusterStatus& status, Rank rank) {
  return status.workers.at(static_cast<size_t>(rank));
}

std::string Label(const WorkerStatus& worker) {
  return Ranks({worker.rank}) + " (" + ProcessLabel(worker.host, worker.pid) + ")";
}

// What is the matter with a culprit, after its name.
std::string Matter(const Culprit& culprit, const WorkerStatus& worker) {
  const std::string doing = worker.activity.Describe();
  const bool idle = worker.activity.kind == WorkerActivity::Kind::kNone;
  switch (culprit.kind) {
    case Culprit::Kind::kLost:
      return "is lost: " + worker.reason + (idle ? "" : "; it was last seen executing " + doing);
    case Culprit::Kind::kSilent:
      return "does not answer; its last heartbeat came " + RoundedDuration(worker.heartbeat_age) +
             " ago" + (idle ? "" : "; it was last seen executing " + doing);
    case Culprit::Kind::kBusy:
      return (culprit.stuck ? "is stuck, or slow: it executes " : "executes ") + doing;
    case Culprit::Kind::kBehind:
      return "is behind: it executes " + doing + ", batch " +
             std::to_string(worker.activity.received) + " was the last that it took";
  }
  return "";
}

const char* Name(Culprit::Kind kind) {
  switch (kind) {
    case Culprit::Kind::kLost:
      return "lost";
    case Culprit::Kind::kSilent:
      return "silent";
    case Culprit::Kind::kBusy:
      return "busy";
    case Culprit::Kind::kBehind:
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
          {"since_ms", activity.since.count()}};
}

}  // namespace

void PrintDiagnosis(std::ostream& out, const text::Style& style, const ClusterStatus& status,
                    const ClusterStory& diagnosis) {
  out << style.Paint(text::Tint::kBold, diagnosis.summary) << '\n';
  for (const Culprit& culprit : diagnosis.culprits) {
    const WorkerStatus& worker = Find(status, culprit.rank);
    const bool grave = culprit.stuck || culprit.kind != Culprit::Kind::kBusy;
    out << '\n'
        << style.Paint(grave ? text::Tint::kRed : text::Tint::kYellow, Label(worker)) << ' '
        << Matter(culprit, worker) << '\n';
    if (!culprit.waiting.empty()) {
      const WorkerActivity& theirs = Find(status, culprit.waiting.front()).activity;
      out << style.Paint(text::Tint::kDim, "  waiting  ") << Ranks(culprit.waiting) << " in "
          << theirs.Describe() << '\n';
    }
    PrintStack(out, style, worker);
  }
  for (const Rank rank : diagnosis.together) {
    const WorkerStatus& worker = Find(status, rank);
    out << '\n' << Label(worker) << " executes " << worker.activity.Describe() << '\n';
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

Json DiagnosisToJson(const ClusterStatus& status, const ClusterStory& diagnosis) {
  Json culprits = Json::array();
  for (const Culprit& culprit : diagnosis.culprits) {
    const WorkerStatus& worker = Find(status, culprit.rank);
    culprits.push_back({{"rank", culprit.rank},
                        {"kind", Name(culprit.kind)},
                        {"stuck", culprit.stuck},
                        {"host", worker.host},
                        {"pid", worker.pid},
                        {"reason", worker.reason.empty() ? Json() : Json(worker.reason)},
                        {"doing", ActivityToJson(worker.activity)},
                        {"waiting", culprit.waiting},
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
          {"culprits", culprits},
          {"together", diagnosis.together},
          {"failed_sessions", failed}};
}

}  // namespace lockstep::cli
