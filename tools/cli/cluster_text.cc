#include "tools/cli/cluster_text.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/base/quantity.h"
#include "runtime/base/rank_text.h"
#include "runtime/client/stall_diagnosis.h"
#include "tools/cli/session_text.h"
#include "tools/cli/worker_groups.h"
#include "tools/text/format.h"
#include "tools/text/table.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

text::Tint TintOf(WorkerState state) {
  switch (state) {
    case WorkerState::kReady:
      return text::Tint::kGreen;
    case WorkerState::kLost:
      return text::Tint::kRed;
    case WorkerState::kMissing:
    case WorkerState::kJoining:
      break;
  }
  return text::Tint::kYellow;
}

std::string NumberIfAny(int number) { return number == 0 ? "" : std::to_string(number); }

std::string Doing(const WorkerStatus& worker) {
  return DoesWhatLasts(worker) ? worker.activity.Describe() : "";
}

Json SessionsToJson(const std::vector<SessionStatus>& sessions) {
  Json list = Json::array();
  for (const SessionStatus& session : sessions) list.push_back(SessionToJson(session));
  return list;
}

}  // namespace

text::Table::Cell StateCell(const ClusterStatus& status) {
  if (status.IsReady()) {
    const bool is_held_up = std::any_of(
        status.workers.begin(), status.workers.end(),
        [&](const WorkerStatus& worker) { return status.EndedSessionOf(worker) != nullptr; });
    if (is_held_up) return {"held up", text::Tint::kYellow};
    return {"ready", text::Tint::kGreen};
  }
  const bool lost =
      std::any_of(status.workers.begin(), status.workers.end(),
                  [](const WorkerStatus& worker) { return worker.state == WorkerState::kLost; });
  if (lost) return {"broken", text::Tint::kRed};
  return {"joining", text::Tint::kYellow};
}

text::Table::Cell StateCell(const WorkerStatus& worker) {
  if (worker.stuck) return {"stuck", text::Tint::kYellow};
  return {std::string(Name(worker.state)), TintOf(worker.state)};
}

uint64_t CountReady(const ClusterStatus& status) {
  return static_cast<uint64_t>(std::count_if(
      status.workers.begin(), status.workers.end(),
      [](const WorkerStatus& worker) { return worker.state == WorkerState::kReady; }));
}

std::vector<std::string> EndedWork(const ClusterStatus& status) {
  // All ranks may be in the same function, and began it at nearly the same time.
  struct Work {
    std::vector<Rank> ranks;
    const WorkerActivity* activity;
  };
  std::vector<Work> works;
  for (const WorkerStatus& worker : status.workers) {
    if (status.EndedSessionOf(worker) == nullptr) continue;
    const auto same = std::find_if(works.begin(), works.end(), [&](const Work& work) {
      return work.activity->session == worker.activity.session &&
             work.activity->what == worker.activity.what;
    });
    if (same == works.end()) {
      works.push_back({{worker.rank}, &worker.activity});
    } else {
      same->ranks.push_back(worker.rank);
      if (worker.activity.since > same->activity->since) same->activity = &worker.activity;
    }
  }
  std::vector<std::string> texts;
  for (const Work& work : works) {
    texts.push_back(ListRanks(work.ranks) +
                    (work.ranks.size() == 1 ? " still executes " : " still execute ") +
                    text::Printable(work.activity->Describe()) +
                    ", which has ended; `lockstep why` tells what to do");
  }
  return texts;
}

void PrintCluster(std::ostream& out, const text::Style& style, const ClusterStatus& status,
                  const std::string& endpoint) {
  const auto line = [&](const char* label, const std::string& text) {
    out << style.Paint(text::Tint::kDim, label) << text << '\n';
  };
  const text::Table::Cell state = StateCell(status);
  line("cluster     ",
       style.Paint(text::Tint::kBold, status.cluster) + "  " + style.Paint(state.tint, state.text));
  line("workers     ", std::to_string(CountReady(status)) + " of " +
                           std::to_string(status.workers.size()) + " ready");
  for (const std::string& trouble : EndedWork(status)) line("held up     ", trouble);
  const std::vector<Rank> lost = status.LostRanks();
  const std::string how = AdviceFor(status, Blocker::Kind::kLost, lost);
  if (!how.empty()) line("lost        ", ListRanks(lost) + ": " + text::Printable(how));
  line("controller  ", endpoint + "  pid " + std::to_string(status.controller_pid) + ", up " +
                           RoundedDuration(status.uptime) + ", version " + status.build);
  line("batches     ",
       text::FormatCount(status.batches) + " in epoch " + std::to_string(status.epoch.value));
}

// "backend shm (ranks 0 to 3): all ranks map each other's memory", for workers that say the same.
void PrintConnections(std::ostream& out, const text::Style& style,
                      const std::vector<WorkerStatus>& workers) {
  std::map<std::pair<std::string, std::string>, std::vector<Rank>> ranks;
  for (const WorkerStatus& worker : workers) {
    const bool is_ready = worker.state == WorkerState::kReady;
    if (worker.connection.empty() || worker.state == WorkerState::kLost) continue;
    ranks[{is_ready ? "backend " + worker.backend : "not connected", worker.connection}].push_back(
        worker.rank);
  }
  // While they do not reach each other, each may have a trouble of its own.
  constexpr size_t kMostConnections = 8;
  size_t told = 0;
  for (const auto& [connection, who] : ranks) {
    if (told++ == kMostConnections) {
      out << "and " << ranks.size() - kMostConnections << " more; --output json has them all\n";
      break;
    }
    const bool is_everybody = who.size() == workers.size();
    out << style.Paint(text::Tint::kBold, connection.first)
        << (is_everybody ? "" : " (" + ListRanks(who) + ")") << ": "
        << text::Printable(connection.second) << '\n';
  }
}

// "commands by ring (ranks 0 to 2)": the others' come by socket. Nothing where all do.
void PrintRings(std::ostream& out, const text::Style& style,
                const std::vector<WorkerStatus>& workers) {
  std::vector<Rank> by_ring;
  for (const WorkerStatus& worker : workers) {
    if (worker.by_ring) by_ring.push_back(worker.rank);
  }
  if (by_ring.empty()) return;
  const bool is_everybody = by_ring.size() == workers.size();
  out << style.Paint(text::Tint::kBold, "commands by ring")
      << (is_everybody ? "" : " (" + ListRanks(by_ring) + ")")
      << ": through memory shared with the controller"
      << (is_everybody ? "" : "; to the others by socket") << '\n';
}

// "commands by relay (ranks 32 to 99)". Nothing where none do.
void PrintRelays(std::ostream& out, const text::Style& style,
                 const std::vector<WorkerStatus>& workers) {
  std::vector<Rank> by_relay;
  for (const WorkerStatus& worker : workers) {
    if (worker.by_relay) by_relay.push_back(worker.rank);
  }
  if (by_relay.empty()) return;
  out << style.Paint(text::Tint::kBold, "commands by relay") << " (" << ListRanks(by_relay)
      << "): from other workers, which the controller sends them to\n";
}

std::string CounterOf(const WorkerGroup& group, uint64_t WorkerActivity::*counter) {
  const auto [least, most] =
      std::minmax_element(group.workers.begin(), group.workers.end(),
                          [&](const WorkerStatus* a, const WorkerStatus* b) {
                            return a->activity.*counter < b->activity.*counter;
                          });
  return CountRange((*least)->activity.*counter, (*most)->activity.*counter);
}

// A line for each group, which fits the terminal.
void PrintWorkerGroups(std::ostream& out, const text::Style& style,
                       const std::vector<WorkerStatus>& workers) {
  using Align = text::Table::Align;
  constexpr int kMostRanksWidth = 40;
  constexpr size_t kMostHosts = 2;
  // The numbers say which columns are given up first where not all fit.
  text::FittedTable table({{"RANKS", Align::kLeft, 100},
                           {"WORKERS", Align::kRight, 95},
                           {"STATE", Align::kLeft, 90},
                           {"HOSTS", Align::kLeft, 40},
                           {"PID", Align::kRight, 45},
                           {"DEVICE", Align::kLeft, 10},
                           {"BACKEND", Align::kLeft, 15},
                           {"RECEIVED", Align::kRight, 50},
                           {"LAUNCHED", Align::kRight, 20},
                           {"COMPLETED", Align::kRight, 35},
                           {"HEARTBEAT", Align::kRight, 30},
                           {"DOING", Align::kLeft, 100}});
  const std::vector<WorkerGroup> groups = GroupWorkers(workers);
  for (const WorkerGroup& group : groups) {
    const WorkerStatus& longest = group.longest();
    const bool is_one = group.size() == 1;
    const bool joined = longest.state != WorkerState::kMissing;
    const bool lives = joined && longest.state != WorkerState::kLost;
    std::chrono::milliseconds oldest{0};
    for (const WorkerStatus* worker : group.workers) {
      oldest = std::max(oldest, worker->heartbeat_age);
    }
    const bool has_reason = !longest.reason.empty();
    const std::string doing = DoesWhatLasts(longest) ? DescribeWork(group.workers) : "";
    table.AddRow({text::Shorten(RankRanges(group.ranks()), kMostRanksWidth),
                  std::to_string(group.size()),
                  StateCell(longest),
                  HostsOf(group.workers, kMostHosts),
                  is_one ? NumberIfAny(longest.pid) : "",
                  is_one ? longest.device : KindOfDevice(longest.device),
                  longest.backend,
                  joined ? CounterOf(group, &WorkerActivity::received) : "",
                  joined ? CounterOf(group, &WorkerActivity::launched) : "",
                  joined ? CounterOf(group, &WorkerActivity::completed) : "",
                  lives ? RoundedDuration(oldest) + " ago" : "",
                  {has_reason ? LostBecause(longest, is_one) : doing, has_reason ? text::Tint::kRed
                                                                      : longest.stuck
                                                                          ? text::Tint::kYellow
                                                                          : text::Tint::kPlain}});
  }
  const auto count = static_cast<int>(groups.size());
  for (const std::string& line : table.Render(style, style.width(), 0, count)) out << line << '\n';
  out << style.Paint(text::Tint::kDim, text::Plural(workers.size(), "worker") + ", " +
                                           text::Plural(groups.size(), "group") +
                                           " of those that do the same; --all shows each")
      << '\n';
}

void PrintWorkers(std::ostream& out, const text::Style& style,
                  const std::vector<WorkerStatus>& workers, bool each) {
  if (!each && workers.size() > kMostSingleWorkers) {
    PrintWorkerGroups(out, style, workers);
    PrintConnections(out, style, workers);
    PrintRings(out, style, workers);
    PrintRelays(out, style, workers);
    return;
  }
  using Align = text::Table::Align;
  text::Table table({{"RANK", Align::kRight},
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
                  joined ? text::FormatCount(worker.activity.received) : "",
                  joined ? text::FormatCount(worker.activity.launched) : "",
                  joined ? text::FormatCount(worker.activity.completed) : "",
                  lives ? RoundedDuration(worker.heartbeat_age) + " ago" : "",
                  {Doing(worker), worker.stuck ? text::Tint::kYellow : text::Tint::kPlain},
                  {worker.reason, text::Tint::kRed}});
  }
  table.Print(out, style);
  PrintConnections(out, style, workers);
  PrintRings(out, style, workers);
  PrintRelays(out, style, workers);
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
                    {"commands_by", worker.by_ring    ? "ring"
                                    : worker.by_relay ? "relay"
                                                      : "socket"},
                    {"received", worker.activity.received},
                    {"launched", worker.activity.launched},
                    {"completed", worker.activity.completed},
                    {"heartbeat_age_ms", worker.heartbeat_age.count()},
                    {"stuck", worker.stuck},
                    {"doing", Doing(worker)},
                    {"reason", worker.reason.empty() ? Json() : Json(worker.reason)},
                    {"may_live", worker.may_live}});
  }
  return list;
}

Json ClusterToJson(const ClusterStatus& status, const std::string& endpoint) {
  const std::string advice = AdviceFor(status, Blocker::Kind::kLost, status.LostRanks());
  return {{"cluster", status.cluster},
          {"advice", advice.empty() ? Json() : Json(advice)},
          {"ready", status.IsReady()},
          {"endpoint", endpoint},
          {"build", status.build},
          {"epoch", status.epoch.value},
          {"controller_pid", status.controller_pid},
          {"uptime_ms", status.uptime.count()},
          {"batches", status.batches},
          {"held_up", EndedWork(status)},
          {"replacement_hint", status.replacement_hint},
          {"metrics", status.metrics_endpoint},
          {"workers", WorkersToJson(status.workers)},
          {"sessions", SessionsToJson(status.sessions)}};
}

}  // namespace lockstep::cli
