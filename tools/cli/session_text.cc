#include "tools/cli/session_text.h"

#include <algorithm>
#include <utility>

#include "runtime/base/quantity.h"
#include "tools/cli/register_text.h"
#include "tools/text/format.h"
#include "tools/text/table.h"

namespace lockstep::cli {
namespace {

// What a session holds, over all ranks that have told.
struct Holding {
  int ranks = 0;
  uint64_t fewest = 0;
  uint64_t most = 0;  // registers on one rank
  uint64_t bytes = 0;
};

Holding HoldingOf(SessionId session, const std::vector<RankRegisters>& ranks) {
  Holding holding;
  for (const RankRegisters& rank : ranks) {
    for (const SessionHoldings& held : rank.sessions) {
      if (held.session != session) continue;
      holding.fewest =
          holding.ranks == 0 ? held.registers : std::min(holding.fewest, held.registers);
      holding.most = std::max(holding.most, held.registers);
      holding.bytes += held.bytes;
      ++holding.ranks;
    }
  }
  return holding;
}

std::string RegistersOf(const Holding& holding) {
  if (holding.ranks == 0) return "";
  if (holding.fewest == holding.most) return text::FormatCount(holding.most);
  return text::FormatCount(holding.fewest) + "-" + text::FormatCount(holding.most);
}

}  // namespace

std::string StateOf(const SessionStatus& session) {
  std::string text = session.broken ? "broken" : session.error.empty() ? "" : "failed";
  const char* const rest = session.closing       ? "closing"
                           : session.client_lost ? "orphaned"
                           : session.detached    ? "detached"
                                                 : "";
  if (!text.empty() && *rest != '\0') text += ", ";
  text += rest;
  return text.empty() ? "open" : text;
}

text::Tint TintOf(const SessionStatus& session) {
  if (!session.error.empty() || session.broken) return text::Tint::kRed;
  return session.closing || session.detached ? text::Tint::kYellow : text::Tint::kGreen;
}

uint64_t UnderWay(const SessionStatus& session) {
  return session.sent_bytes - std::min(session.sent_bytes, session.consumed_bytes);
}

void PrintSessions(std::ostream& out, const text::Style& style,
                   const std::vector<SessionStatus>& sessions) {
  using Align = text::Table::Align;
  text::Table table({{"SESSION", Align::kRight},
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
                  RoundedSize(session.sent_bytes),
                  RoundedSize(UnderWay(session)),
                  {session.error, text::Tint::kRed}});
  }
  table.Print(out, style);
}

void PrintSessionDetails(std::ostream& out, const text::Style& style,
                         const std::vector<SessionStatus>& sessions,
                         const std::vector<RankRegisters>& ranks) {
  if (sessions.empty()) {
    out << "no session is open\n";
    return;
  }
  using Align = text::Table::Align;
  text::Table table({{"SESSION", Align::kRight},
                     {"NAME"},
                     {"CLIENT"},
                     {"STATE"},
                     {"BY"},
                     {"AGE", Align::kRight},
                     {"RESETS", Align::kRight},
                     {"GROUPS", Align::kRight},
                     {"COMMANDS", Align::kRight},
                     {"SENT", Align::kRight},
                     {"WAITING", Align::kRight},
                     {"REGISTERS", Align::kRight},
                     {"BYTES", Align::kRight}});
  for (const SessionStatus& session : sessions) {
    const Holding holding = HoldingOf(session.session, ranks);
    table.AddRow({std::to_string(session.session.value),
                  session.name,
                  session.host + ":" + std::to_string(session.pid),
                  {StateOf(session), TintOf(session)},
                  session.path,
                  RoundedDuration(session.age),
                  std::to_string(session.generation),
                  std::to_string(session.num_groups),
                  text::FormatCount(session.commands),
                  RoundedSize(session.sent_bytes),
                  RoundedSize(UnderWay(session)),
                  RegistersOf(holding),
                  holding.ranks == 0 ? "" : RoundedSize(holding.bytes)});
  }
  table.Print(out, style);
  for (const SessionStatus& session : sessions) {
    const std::string who = "session " + std::to_string(session.session.value);
    if (!session.error.empty()) {
      out << style.Paint(text::Tint::kRed, who + " has failed: ") << text::Printable(session.error)
          << '\n';
    }
    if (session.detached && !session.closing) {
      out << who << " has no client" << (session.client_lost ? ": its last one fell silent" : "");
      if (session.kept.count() > 0) {
        out << "; it is kept for " << RoundedDuration(session.kept) << " more";
      }
      out << '\n';
    }
  }
  PrintSilentRanks(out, style, ranks);
}

Json SessionToJson(const SessionStatus& session) {
  return {{"session", session.session.value},
          {"name", session.name},
          {"host", session.host},
          {"pid", session.pid},
          {"state", StateOf(session)},
          {"closing", session.closing},
          {"broken", session.broken},
          {"detached", session.detached},
          {"client_lost", session.client_lost},
          {"kept_ms", session.kept.count()},
          {"age_ms", session.age.count()},
          {"silent_ms", session.silent.count()},
          {"commands_by", session.path},
          {"generation", session.generation},
          {"groups", session.num_groups},
          {"commands", session.commands},
          {"sent_bytes", session.sent_bytes},
          {"consumed_bytes", session.consumed_bytes},
          {"under_way_bytes", UnderWay(session)},
          {"error", session.error.empty() ? Json() : Json(session.error)}};
}

Json SessionDetailsToJson(const std::vector<SessionStatus>& sessions,
                          const std::vector<RankRegisters>& ranks) {
  Json list = Json::array();
  for (const SessionStatus& session : sessions) {
    Json entry = SessionToJson(session);
    entry["ranks"] = Json::array();
    for (const RankRegisters& rank : ranks) {
      for (const SessionHoldings& held : rank.sessions) {
        if (held.session != session.session) continue;
        entry["ranks"].push_back(
            {{"rank", rank.rank}, {"registers", held.registers}, {"bytes", held.bytes}});
      }
    }
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace lockstep::cli
