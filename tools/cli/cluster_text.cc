#include "tools/cli/cluster_text.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/base/quantity.h"
#include "runtime/base/rank_text.h"
#include "tools/cli/printable.h"
#include "tools/cli/session_text.h"

namespace lockstep::cli {
namespace {

Tint TintOf(WorkerState state) {
  switch (state) {
    case WorkerState::kReady:
      return Tint::kGreen;
    case WorkerState::kLost:
      return Tint::kRed;
    case WorkerState::kMissing:
    case WorkerState::kJoining:
      break;
  }
  return Tint::kYellow;
}

std::string NumberIfAny(int number) { return number == 0 ? "" : std::to_string(number); }

// Only what lasts: commands of a moment come and go between two heartbeats.
std::string Doing(const WorkerStatus& worker) {
  constexpr std::chrono::milliseconds kLasts{200};
  const WorkerActivity& activity = worker.activity;
  const bool lasts = activity.kind != WorkerActivity::Kind::kNone && activity.since >= kLasts;
  return lasts ? activity.Describe() : "";
}

Json SessionsToJson(const std::vector<SessionStatus>& sessions) {
  Json list = Json::array();
  for (const SessionStatus& session : sessions) list.push_back(SessionToJson(session));
  return list;
}

}  // namespace

Table::Cell StateCell(const ClusterStatus& status) {
  if (status.IsReady()) return {"ready", Tint::kGreen};
  const bool lost =
      std::any_of(status.workers.begin(), status.workers.end(),
                  [](const WorkerStatus& worker) { return worker.state == WorkerState::kLost; });
  if (lost) return {"broken", Tint::kRed};
  return {"joining", Tint::kYellow};
}

Table::Cell StateCell(const WorkerStatus& worker) {
  if (worker.stuck) return {"stuck", Tint::kYellow};
  return {std::string(Name(worker.state)), TintOf(worker.state)};
}

uint64_t CountReady(const ClusterStatus& status) {
  return static_cast<uint64_t>(std::count_if(
      status.workers.begin(), status.workers.end(),
      [](const WorkerStatus& worker) { return worker.state == WorkerState::kReady; }));
}

void PrintCluster(std::ostream& out, const Style& style, const ClusterStatus& status,
                  const std::string& endpoint) {
  const auto line = [&](const char* label, const std::string& text) {
    out << style.Paint(Tint::kDim, label) << text << '\n';
  };
  const Table::Cell state = StateCell(status);
  line("cluster     ",
       style.Paint(Tint::kBold, status.cluster) + "  " + style.Paint(state.tint, state.text));
  line("workers     ", std::to_string(CountReady(status)) + " of " +
                           std::to_string(status.workers.size()) + " ready");
  line("controller  ", endpoint + "  pid " + std::to_string(status.controller_pid) + ", up " +
                           RoundedDuration(status.uptime) + ", version " + status.build);
  line("batches     ",
       FormatCount(status.batches) + " in epoch " + std::to_string(status.epoch.value));
}

// "backend shm (ranks 0 to 3): all ranks map each other's memory", for workers that say the same.
void PrintConnections(std::ostream& out, const Style& style,
                      const std::vector<WorkerStatus>& workers) {
  std::map<std::pair<std::string, std::string>, std::vector<Rank>> ranks;
  for (const WorkerStatus& worker : workers) {
    const bool is_ready = worker.state == WorkerState::kReady;
    if (worker.connection.empty() || worker.state == WorkerState::kLost) continue;
    ranks[{is_ready ? "backend " + worker.backend : "not connected", worker.connection}].push_back(
        worker.rank);
  }
  for (const auto& [connection, who] : ranks) {
    const bool is_everybody = who.size() == workers.size();
    out << style.Paint(Tint::kBold, connection.first)
        << (is_everybody ? "" : " (" + ListRankRanges(who) + ")") << ": "
        << Printable(connection.second) << '\n';
  }
}

void PrintWorkers(std::ostream& out, const Style& style, const std::vector<WorkerStatus>& workers) {
  using Align = Table::Align;
  Table table({{"RANK", Align::kRight},
               {"STATE"},
               {"HOST"},
               {"PID", Align::kRight},
               {"DEVICE"},
               {"BACKEND"},
               {"RECEIVED", Align::kRight},
               {"LAUNCHED", Align::kRight},
               {"COMPLETED", Align::kRight},
               {"HEARTBEAT", Align::kRight},
               {"DOING"},
               {"REASON"}});
  for (const WorkerStatus& worker : workers) {
    const bool joined = worker.state != WorkerState::kMissing;
    const bool lives = joined && worker.state != WorkerState::kLost;
    table.AddRow({std::to_string(worker.rank),
                  StateCell(worker),
                  worker.host,
                  NumberIfAny(worker.pid),
                  worker.device,
                  worker.backend,
                  joined ? FormatCount(worker.activity.received) : "",
                  joined ? FormatCount(worker.activity.launched) : "",
                  joined ? FormatCount(worker.activity.completed) : "",
                  lives ? RoundedDuration(worker.heartbeat_age) + " ago" : "",
                  {Doing(worker), worker.stuck ? Tint::kYellow : Tint::kPlain},
                  {worker.reason, Tint::kRed}});
  }
  table.Print(out, style);
  PrintConnections(out, style, workers);
}

void PrintSessions(std::ostream& out, const Style& style,
                   const std::vector<SessionStatus>& sessions) {
  using Align = Table::Align;
  Table table({{"SESSION", Align::kRight},
               {"NAME"},
               {"CLIENT"},
               {"STATE"},
               {"GROUPS", Align::kRight},
               {"SENT", Align::kRight},
               {"WAITING", Align::kRight},
               {"ERROR"}});
  for (const SessionStatus& session : sessions) {
    const std::string state = StateOf(session);
    table.AddRow({std::to_string(session.session.value),
                  session.name,
                  session.host + ":" + std::to_string(session.pid),
                  {state == "open" ? "" : state, TintOf(session)},
                  std::to_string(session.num_groups),
                  FormatBytes(session.sent_bytes),
                  FormatBytes(UnderWay(session)),
                  {session.error, Tint::kRed}});
  }
  table.Print(out, style);
}

Json WorkersToJson(const std::vector<WorkerStatus>& workers) {
  Json list = Json::array();
  for (const WorkerStatus& worker : workers) {
    list.push_back({{"rank", worker.rank},
                    {"state", Name(worker.state)},
                    {"host", worker.host},
                    {"pid", worker.pid},
                    {"device", worker.device},
                    {"metrics", worker.metrics_endpoint},
                    {"backend", worker.backend},
                    {"connection", worker.connection},
                    {"received", worker.activity.received},
                    {"launched", worker.activity.launched},
                    {"completed", worker.activity.completed},
                    {"heartbeat_age_ms", worker.heartbeat_age.count()},
                    {"stuck", worker.stuck},
                    {"doing", Doing(worker)},
                    {"reason", worker.reason.empty() ? Json() : Json(worker.reason)}});
  }
  return list;
}

Json ClusterToJson(const ClusterStatus& status, const std::string& endpoint) {
  return {{"cluster", status.cluster},
          {"ready", status.IsReady()},
          {"endpoint", endpoint},
          {"build", status.build},
          {"epoch", status.epoch.value},
          {"controller_pid", status.controller_pid},
          {"uptime_ms", status.uptime.count()},
          {"batches", status.batches},
          {"metrics", status.metrics_endpoint},
          {"workers", WorkersToJson(status.workers)},
          {"sessions", SessionsToJson(status.sessions)}};
}

}  // namespace lockstep::cli
