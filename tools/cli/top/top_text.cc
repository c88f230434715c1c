#include "tools/cli/top/top_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <tuple>
#include <utility>

#include "runtime/base/quantity.h"
#include "runtime/base/rank_text.h"
#include "tools/cli/cluster_text.h"
#include "tools/cli/session_text.h"
#include "tools/cli/worker_groups.h"
#include "tools/text/format.h"
#include "tools/text/table.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

using Align = text::Table::Align;

// What a peer counts can be anything, and so can its rates.
uint64_t Whole(double value) {
  constexpr double kMost = 1e18;
  return static_cast<uint64_t>(std::llround(std::clamp(value, 0.0, kMost)));
}

std::string Rate(double per_second) {
  if (per_second >= 9.95) return text::FormatCount(Whole(per_second));
  char text[32];
  std::snprintf(text, sizeof text, per_second < 0.05 ? "%.0f" : "%.1f", per_second);
  return text;
}

std::string ByteRate(double per_second) { return RoundedSize(Whole(per_second)) + "/s"; }

std::string Percent(double share) {
  return std::to_string(static_cast<int>(std::lround(share * 100))) + "%";
}

// "850 us", "1.2 ms", "3.4 s"
std::string ShortTime(std::chrono::nanoseconds time) {
  const double micros = static_cast<double>(time.count()) / 1000;
  if (micros >= 999'500) {
    return RoundedDuration(std::chrono::duration_cast<std::chrono::milliseconds>(time));
  }
  char text[32];
  const bool is_short = micros < 999.5;
  std::snprintf(text, sizeof text, is_short ? "%.0f us" : "%.1f ms",
                is_short ? micros : micros / 1000);
  return text;
}

std::string Doing(const WorkerActivity& activity) {
  // What is shorter has ended by the time it is read.
  constexpr std::chrono::milliseconds kLasts{100};
  if (activity.kind == WorkerActivity::Kind::kNone) return "idle";
  const std::string what = activity.what.empty() ? "command " + std::to_string(activity.command)
                                                 : activity.WhatAndPlace();
  return what + (activity.since >= kLasts ? " for " + RoundedDuration(activity.since) : "") +
         ", session " + std::to_string(activity.session.value);
}

// Pieces of one line, two spaces apart, as long as they fit.
std::string JoinPieces(const text::Style& style, int width,
                       const std::vector<std::pair<text::Tint, std::string>>& pieces) {
  std::string line;
  int taken = 0;
  for (const auto& [tint, text] : pieces) {
    if (text.empty()) continue;
    const std::string piece = text::Printable(text);
    const int gap = taken == 0 ? 0 : 2;
    const int room = width == 0 ? text::DisplayWidth(piece) : width - taken - gap;
    if (room <= 0 || (taken > 0 && text::DisplayWidth(piece) > room)) break;
    line +=
        std::string(static_cast<size_t>(gap), ' ') + style.Paint(tint, text::Shorten(piece, room));
    taken += gap + std::min(room, text::DisplayWidth(piece));
  }
  return line;
}

std::vector<std::string> Header(const TopView& view, const text::Style& style, int width) {
  const ClusterStatus& status = view.status;
  const text::Table::Cell state = StateCell(status);
  const auto failed =
      std::count_if(status.sessions.begin(), status.sessions.end(),
                    [](const SessionStatus& session) { return !session.error.empty(); });
  double bus_bytes = 0;
  for (const WorkerRates& worker : view.rates.workers) bus_bytes += worker.bus_bytes;
  std::vector<std::string> lines;
  lines.push_back(JoinPieces(
      style, width,
      {{text::Tint::kBold, status.cluster},
       {state.tint, state.text},
       {text::Tint::kPlain, std::to_string(CountReady(status)) + " of " +
                                text::Plural(status.workers.size(), "worker") + " ready"},
       {text::Tint::kPlain, "up " + RoundedDuration(status.uptime)},
       {text::Tint::kDim, "epoch " + std::to_string(status.epoch.value)}}));
  std::vector<std::pair<text::Tint, std::string>> second;
  second.emplace_back(text::Tint::kPlain, text::Plural(status.sessions.size(), "session"));
  if (failed > 0) second.emplace_back(text::Tint::kRed, std::to_string(failed) + " failed");
  if (view.rates.seconds > 0) {
    second.emplace_back(text::Tint::kPlain, Rate(view.rates.batches) + " batches/s");
    second.emplace_back(text::Tint::kPlain, ByteRate(bus_bytes) + " in collectives");
  }
  lines.push_back(JoinPieces(style, width, second));
  if (!view.trouble.empty())
    lines.push_back(JoinPieces(style, width, {{text::Tint::kRed, view.trouble}}));
  return lines;
}

// The ranks that come last to collectives much more often than others: by place.
std::vector<bool> FindLate(const ClusterRates& rates) {
  constexpr double kOften = 0.1;
  constexpr double kTimesTheMean = 4;
  double mean = 0;
  for (const WorkerRates& worker : rates.workers) {
    mean += worker.last_share / static_cast<double>(rates.workers.size());
  }
  std::vector<bool> late;
  for (const WorkerRates& worker : rates.workers) {
    late.push_back(worker.last_share > std::max(kOften, kTimesTheMean * mean));
  }
  return late;
}

// What a line shows of several workers: of rates and of what they hold the median, of what is
// better small the most.
struct GroupNumbers {
  std::chrono::milliseconds heartbeat_age{0};
  uint64_t registers = 0;
  uint64_t tensor_bytes = 0;
  WorkerRates rates;
};

template <typename Number, typename Of>
Number MedianOf(const WorkerGroup& group, Of&& of) {
  std::vector<Number> numbers;
  for (const WorkerStatus* worker : group.workers) numbers.push_back(of(*worker));
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

template <typename Number, typename Of>
Number MostOf(const WorkerGroup& group, Of&& of) {
  Number most{};
  for (const WorkerStatus* worker : group.workers) most = std::max<Number>(most, of(*worker));
  return most;
}

GroupNumbers NumbersOf(const TopView& view, const WorkerGroup& group) {
  const auto rates_of = [&](const WorkerStatus& worker) -> const WorkerRates& {
    return view.rates.workers[static_cast<size_t>(&worker - view.status.workers.data())];
  };
  const auto median_rate = [&](double WorkerRates::*rate) {
    return MedianOf<double>(group, [&](const WorkerStatus& w) { return rates_of(w).*rate; });
  };
  GroupNumbers numbers;
  numbers.heartbeat_age = MostOf<std::chrono::milliseconds>(
      group, [](const WorkerStatus& worker) { return worker.heartbeat_age; });
  numbers.registers = MedianOf<uint64_t>(
      group, [](const WorkerStatus& worker) { return worker.activity.registers; });
  numbers.tensor_bytes = MedianOf<uint64_t>(
      group, [](const WorkerStatus& worker) { return worker.activity.tensor_bytes; });
  numbers.rates.commands = median_rate(&WorkerRates::commands);
  numbers.rates.collectives = median_rate(&WorkerRates::collectives);
  numbers.rates.bus_bytes = median_rate(&WorkerRates::bus_bytes);
  numbers.rates.collective_share = median_rate(&WorkerRates::collective_share);
  numbers.rates.waiting_batches =
      MostOf<uint64_t>(group, [&](const WorkerStatus& w) { return rates_of(w).waiting_batches; });
  numbers.rates.last_share =
      MostOf<double>(group, [&](const WorkerStatus& w) { return rates_of(w).last_share; });
  numbers.rates.late = MostOf<std::chrono::nanoseconds>(
      group, [&](const WorkerStatus& w) { return rates_of(w).late; });
  return numbers;
}

// The lines of the table of workers, in its order.
std::vector<WorkerGroup> LinesOf(const TopView& view, const TopWindow& window) {
  if (!window.each && view.status.workers.size() > kMostSingleWorkers) {
    return GroupWorkers(view.status.workers, FindLate(view.rates));
  }
  std::vector<WorkerGroup> lines;
  for (const WorkerStatus& worker : view.status.workers) lines.push_back({{&worker}});
  return lines;
}

text::FittedTable Workers(const TopView& view, const std::vector<WorkerGroup>& lines) {
  constexpr int kMostRanksWidth = 24;
  constexpr size_t kMostHosts = 1;
  // The numbers say which columns are given up first where not all fit.
  text::FittedTable table({{"RANK", Align::kRight, 100},
                           {"STATE", Align::kLeft, 90},
                           {"HOST", Align::kLeft, 10},
                           {"HEARTBEAT", Align::kRight, 20},
                           {"CMD/S", Align::kRight, 80},
                           {"QUEUE", Align::kRight, 50},
                           {"REGISTERS", Align::kRight, 30},
                           {"BYTES", Align::kRight, 60},
                           {"COLL/S", Align::kRight, 15},
                           {"MOVED", Align::kRight, 75},
                           {"BUSY", Align::kRight, 70},
                           {"LAST", Align::kRight, 65},
                           {"LATE", Align::kRight, 40},
                           {"DOING", Align::kLeft, 100}});
  const bool has_rates = view.rates.seconds > 0;
  for (const WorkerGroup& group : lines) {
    const WorkerStatus& worker = group.longest();
    const GroupNumbers numbers = NumbersOf(view, group);
    const WorkerRates& rates = numbers.rates;
    const bool is_ready = worker.state == WorkerState::kReady;
    const auto rate = [&](const std::string& text) -> std::string {
      return is_ready && has_rates ? text : "";
    };
    const bool compared = view.rates.compared > 0;
    const std::string reason = LostBecause(worker, group.size() == 1);
    table.AddRow(
        {text::Shorten(RankRanges(group.ranks()), kMostRanksWidth),
         StateCell(worker),
         HostsOf(group.workers, kMostHosts),
         is_ready ? RoundedDuration(numbers.heartbeat_age) : "",
         rate(Rate(rates.commands)),
         is_ready ? text::FormatCount(rates.waiting_batches) : "",
         is_ready ? text::FormatCount(numbers.registers) : "",
         is_ready ? RoundedSize(numbers.tensor_bytes) : "",
         rate(Rate(rates.collectives)),
         rate(ByteRate(rates.bus_bytes)),
         rate(Percent(rates.collective_share)),
         rate(compared ? Percent(rates.last_share) : "-"),
         rate(rates.late.count() > 0 ? ShortTime(rates.late) : "-"),
         {reason.empty() ? is_ready ? Doing(worker.activity) : worker.connection : reason,
          worker.stuck                                                      ? text::Tint::kYellow
          : !reason.empty()                                                 ? text::Tint::kRed
          : is_ready && worker.activity.kind == WorkerActivity::Kind::kNone ? text::Tint::kDim
                                                                            : text::Tint::kPlain}});
  }
  return table;
}

text::FittedTable Sessions(const TopView& view) {
  constexpr int kNameWidth = 40;
  text::FittedTable table({{"SESSION", Align::kRight, 100},
                           {"NAME", Align::kLeft, 90},
                           {"CLIENT", Align::kLeft, 20},
                           {"STATE", Align::kLeft, 80},
                           {"AGE", Align::kRight, 10},
                           {"CMD/S", Align::kRight, 70},
                           {"SENT", Align::kRight, 60},
                           {"WAITING", Align::kRight, 50},
                           {"ERROR", Align::kLeft, 100}});
  const bool has_rates = view.rates.seconds > 0;
  for (size_t i = 0; i < view.status.sessions.size(); ++i) {
    const SessionStatus& session = view.status.sessions[i];
    const SessionRates& rates = view.rates.sessions[i];
    table.AddRow({std::to_string(session.session.value),
                  text::Shorten(text::Printable(session.name), kNameWidth),
                  session.host + ":" + std::to_string(session.pid),
                  {StateOf(session), TintOf(session)},
                  RoundedDuration(session.age),
                  has_rates ? Rate(rates.commands) : "",
                  has_rates ? ByteRate(rates.sent_bytes) : "",
                  RoundedSize(UnderWay(session)),
                  {session.error, text::Tint::kRed}});
  }
  return table;
}

// How many lines the rows of both tables get of `room`: the workers most, the sessions a quarter at
// least if they need it.
std::pair<int, int> Share(int room, int workers, int sessions) {
  const int for_sessions = std::min(sessions, std::max({1, room / 4, room - workers}));
  return {std::max(1, std::min(workers, room - for_sessions)), for_sessions};
}

}  // namespace

std::vector<std::string> RenderTop(const TopView& view, const text::Style& style,
                                   TopWindow& window) {
  const std::vector<WorkerGroup> groups = LinesOf(view, window);
  const bool each = groups.size() == view.status.workers.size();
  const auto workers = static_cast<int>(groups.size());
  const auto sessions = static_cast<int>(view.status.sessions.size());
  std::vector<std::string> lines = Header(view, style, window.width);
  const auto append = [&](std::vector<std::string> more) {
    std::move(more.begin(), more.end(), std::back_inserter(lines));
  };
  lines.emplace_back();
  int shown_workers = workers;
  int shown_sessions = sessions;
  if (window.height > 0) {
    // Both headers of tables, the empty line between them, and the last line.
    const int others = static_cast<int>(lines.size()) + 2 + (sessions > 0 ? 2 : 0);
    std::tie(shown_workers, shown_sessions) = Share(window.height - others, workers, sessions);
  }
  window.first = std::clamp(window.first, 0, std::max(0, workers - shown_workers));
  append(Workers(view, groups).Render(style, window.width, window.first, shown_workers));
  if (sessions > 0) {
    lines.emplace_back();
    append(Sessions(view).Render(style, window.width, 0, shown_sessions));
  }
  if (window.height == 0) return lines;
  std::string last = "q quit";
  if (view.status.workers.size() > kMostSingleWorkers) last += each ? "  g groups" : "  a all";
  if (shown_workers < workers) {
    last += std::string("  ↑↓ ") + (each ? "ranks " : "groups ") + std::to_string(window.first) +
            "-" + std::to_string(window.first + shown_workers - 1) + " of " +
            std::to_string(workers);
  }
  if (shown_sessions < sessions) {
    last += "  " + std::to_string(sessions - shown_sessions) + " more sessions: lockstep sessions";
  }
  const auto height = static_cast<size_t>(window.height);
  lines.resize(height - 1);
  lines.push_back(JoinPieces(style, window.width, {{text::Tint::kDim, last}}));
  return lines;
}

Json TopToJson(const TopView& view) {
  const ClusterStatus& status = view.status;
  Json workers = Json::array();
  for (size_t i = 0; i < status.workers.size(); ++i) {
    const WorkerStatus& worker = status.workers[i];
    const WorkerActivity& activity = worker.activity;
    const WorkerRates& rates = view.rates.workers[i];
    const bool is_idle = activity.kind == WorkerActivity::Kind::kNone;
    workers.push_back({{"rank", worker.rank},
                       {"state", Name(worker.state)},
                       {"stuck", worker.stuck},
                       {"host", worker.host},
                       {"heartbeat_age_ms", worker.heartbeat_age.count()},
                       {"doing", is_idle ? Json() : Json(activity.what)},
                       {"doing_session", is_idle ? Json() : Json(activity.session.value)},
                       {"doing_for_ms", is_idle ? Json() : Json(activity.since.count())},
                       {"commands_per_second", rates.commands},
                       {"waiting_batches", rates.waiting_batches},
                       {"registers", activity.registers},
                       {"tensor_bytes", activity.tensor_bytes},
                       {"collectives_per_second", rates.collectives},
                       {"bus_bytes_per_second", rates.bus_bytes},
                       {"collective_share", rates.collective_share},
                       {"last_share", rates.last_share},
                       {"late_ms", static_cast<double>(rates.late.count()) / 1e6},
                       {"reason", worker.reason.empty() ? Json() : Json(worker.reason)}});
  }
  Json sessions = Json::array();
  for (size_t i = 0; i < status.sessions.size(); ++i) {
    Json session = SessionToJson(status.sessions[i]);
    session["commands_per_second"] = view.rates.sessions[i].commands;
    session["sent_bytes_per_second"] = view.rates.sessions[i].sent_bytes;
    sessions.push_back(std::move(session));
  }
  return {{"cluster", status.cluster},
          {"ready", status.IsReady()},
          {"epoch", status.epoch.value},
          {"uptime_ms", status.uptime.count()},
          {"seconds", view.rates.seconds},
          {"batches_per_second", view.rates.batches},
          {"compared_collectives", view.rates.compared},
          {"workers", std::move(workers)},
          {"sessions", std::move(sessions)}};
}

}  // namespace lockstep::cli
