#include "tools/cli/register_text.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include "runtime/base/quantity.h"
#include "runtime/base/rank_text.h"
#include "tools/text/format.h"
#include "tools/text/table.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

std::string IdText(RegisterId id) {
  std::ostringstream text;
  text << id;
  return text.str();
}

std::string ExtentsText(const std::vector<int64_t>& extents) {
  std::string text = "[";
  for (size_t i = 0; i < extents.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(extents[i]);
  }
  return text + "]";
}

// "float32[512, 256] shard(0) on 0-3", "float32[8, 6] shard(0), replicate on x=2, y=2 of 0-3"
std::string LayoutText(const HeldRegister& held) {
  if (held.layout == nullptr) return held.layout_left_out ? "(too much to tell)" : "";
  const HeldLayout& layout = *held.layout;
  std::string placements;
  for (const std::string& placement : layout.placements) {
    placements += (placements.empty() ? "" : ", ") + placement;
  }
  std::string axes;
  if (layout.axes.size() > 1) {
    for (const HeldLayout::Axis& axis : layout.axes) {
      axes += (axes.empty() ? "" : ", ") + axis.name + "=" + std::to_string(axis.size);
    }
    axes += " of ";
  }
  return layout.dtype + ExtentsText(layout.shape) + " " + placements + " on " + axes +
         RankRanges(layout.ranks);
}

Json LayoutToJson(const HeldLayout& layout) {
  Json axes = Json::array();
  for (const HeldLayout::Axis& axis : layout.axes) {
    axes.push_back({{"name", axis.name}, {"size", axis.size}});
  }
  return {{"dtype", layout.dtype},
          {"shape", layout.shape},
          {"axes", std::move(axes)},
          {"ranks", layout.ranks},
          {"placements", layout.placements}};
}

// What ranks that hold the same say of a register.
struct Line {
  HeldRegister held;
  std::vector<Rank> ranks;
};

// One session on all ranks that have told.
struct Group {
  std::vector<Rank> ranks;
  std::vector<std::pair<Rank, const SessionHoldings*>> holdings;
  std::map<RegisterId, std::vector<Line>> lines;

  void Add(Rank rank, const SessionHoldings& session) {
    ranks.push_back(rank);
    holdings.emplace_back(rank, &session);
    for (const HeldRegister& held : session.listed) {
      std::vector<Line>& same = lines[held.id];
      auto found = std::find_if(same.begin(), same.end(),
                                [&](const Line& line) { return line.held == held; });
      if (found == same.end()) found = same.insert(same.end(), Line{held, {}});
      found->ranks.push_back(rank);
    }
  }
};

std::string RanksText(const std::vector<Rank>& ranks, size_t asked) {
  if (ranks.size() == asked && asked > 1) return "all ranks";
  return ListRanks(ranks);
}

std::string AmountText(const SessionHoldings& session) {
  return text::Plural(session.registers, "register") + ", " + RoundedSize(session.bytes);
}

// "session 3: 5 registers, 64 KiB on all ranks", or a part for each amount.
void PrintAmounts(std::ostream& out, const text::Style& style, SessionId id, const Group& group,
                  size_t asked) {
  std::vector<std::pair<std::string, std::vector<Rank>>> amounts;
  for (const auto& [rank, session] : group.holdings) {
    const std::string text = AmountText(*session);
    auto found = std::find_if(amounts.begin(), amounts.end(),
                              [&](const auto& amount) { return amount.first == text; });
    if (found == amounts.end()) found = amounts.insert(amounts.end(), {text, {}});
    found->second.push_back(rank);
  }
  out << style.Paint(text::Tint::kBold, "session " + std::to_string(id.value)) << ": ";
  for (size_t i = 0; i < amounts.size(); ++i) {
    const bool is_one = amounts[i].second.size() == 1;
    out << (i > 0 ? "; " : "") << amounts[i].first << (is_one ? " on " : " each on ")
        << RanksText(amounts[i].second, asked);
  }
  out << '\n';
}

void PrintGroup(std::ostream& out, const text::Style& style, SessionId id, const Group& group,
                size_t asked) {
  PrintAmounts(out, style, id, group, asked);
  using Align = text::Table::Align;
  text::Table table({{"REGISTER"},
                     {"NAME"},
                     {"TYPE"},
                     {"DTYPE"},
                     {"SHAPE"},
                     {"DEVICE"},
                     {"BYTES", Align::kRight},
                     {"ON"},
                     {"LAYOUT"},
                     {"WHAT"}});
  for (const auto& [register_id, lines] : group.lines) {
    for (const Line& line : lines) {
      const HeldRegister& held = line.held;
      const bool differs = line.ranks.size() < group.ranks.size();
      table.AddRow(
          {IdText(register_id),
           {held.name, text::Tint::kBold},
           held.type,
           held.dtype,
           held.dtype.empty() ? "" : ExtentsText(held.shape),
           held.device,
           held.bytes == 0 ? "" : RoundedSize(held.bytes),
           {RanksText(line.ranks, asked), differs ? text::Tint::kYellow : text::Tint::kPlain},
           LayoutText(held),
           held.detail});
    }
  }
  if (!group.lines.empty()) table.Print(out, style, 2);
  uint64_t hidden = 0;
  for (const auto& [rank, session] : group.holdings) {
    hidden = std::max<uint64_t>(
        hidden,
        session->registers - std::min<uint64_t>(session->registers, session->listed.size()));
  }
  if (hidden > 0) {
    out << style.Paint(text::Tint::kDim, "  and " + text::FormatCount(hidden) +
                                             " more on a rank, which hold less (--limit)")
        << '\n';
  }
}

}  // namespace

void PrintSilentRanks(std::ostream& out, const text::Style& style,
                      const std::vector<RankRegisters>& ranks) {
  for (const RankRegisters& rank : ranks) {
    if (rank.why.empty()) continue;
    out << style.Paint(text::Tint::kYellow,
                       "rank " + std::to_string(rank.rank) + " has not told what it holds: ")
        << text::Printable(rank.why) << '\n';
  }
}

void PrintRegisters(std::ostream& out, const text::Style& style,
                    const std::vector<RankRegisters>& ranks) {
  std::map<SessionId, Group> groups;
  for (const RankRegisters& rank : ranks) {
    for (const SessionHoldings& session : rank.sessions) {
      groups[session.session].Add(rank.rank, session);
    }
  }
  bool is_first = true;
  for (const auto& [id, group] : groups) {
    if (!std::exchange(is_first, false)) out << '\n';
    PrintGroup(out, style, id, group, ranks.size());
  }
  const bool has_told = std::any_of(ranks.begin(), ranks.end(),
                                    [](const RankRegisters& rank) { return rank.why.empty(); });
  if (groups.empty() && has_told) out << "no session is open\n";
  PrintSilentRanks(out, style, ranks);
}

Json RegistersToJson(const std::vector<RankRegisters>& ranks) {
  Json list = Json::array();
  for (const RankRegisters& rank : ranks) {
    Json sessions = Json::array();
    for (const SessionHoldings& session : rank.sessions) {
      Json listed = Json::array();
      for (const HeldRegister& held : session.listed) {
        Json entry = {{"register", IdText(held.id)}, {"type", held.type}, {"bytes", held.bytes}};
        if (!held.name.empty()) entry["name"] = held.name;
        if (!held.detail.empty()) entry["what"] = held.detail;
        if (!held.dtype.empty()) {
          entry["dtype"] = held.dtype;
          entry["shape"] = held.shape;
          entry["device"] = held.device;
        }
        if (held.layout != nullptr) entry["layout"] = LayoutToJson(*held.layout);
        if (held.layout_left_out) entry["layout_left_out"] = true;
        listed.push_back(std::move(entry));
      }
      sessions.push_back({{"session", session.session.value},
                          {"registers", session.registers},
                          {"bytes", session.bytes},
                          {"listed", std::move(listed)}});
    }
    list.push_back({{"rank", rank.rank},
                    {"why_not", rank.why.empty() ? Json() : Json(rank.why)},
                    {"sessions", std::move(sessions)}});
  }
  return list;
}

}  // namespace lockstep::cli
