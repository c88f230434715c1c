#include "tools/bench/report_output.h"

#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/base/version.h"
#include "tools/bench/report.h"
#include "tools/text/format.h"
#include "tools/text/table.h"
#include "tools/text/terminal.h"

namespace lockstep::bench {
namespace {

// Three significant digits, or a whole number with separators.
std::string FormatNumber(double value) {
  if (std::abs(value) >= 1000) {
    const std::string digits =
        text::FormatCount(static_cast<uint64_t>(std::llround(std::abs(value))));
    return value < 0 ? "-" + digits : digits;
  }
  std::array<char, 32> text{};
  const int decimals = std::abs(value) >= 100 ? 0 : std::abs(value) >= 10 ? 1 : 2;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string FormatGoal(const Goal& goal) {
  switch (goal.kind) {
    case Goal::Kind::kNone:
      return "";
    case Goal::Kind::kRatioAtLeast:
      return ">= " + FormatNumber(goal.bound) + "x";
    case Goal::Kind::kValueAtMost:
      return "<= " + FormatNumber(goal.bound);
    case Goal::Kind::kValueAtLeast:
      return ">= " + FormatNumber(goal.bound);
  }
  return "";
}

text::Tint TintOf(Verdict::Outcome outcome) {
  switch (outcome) {
    case Verdict::Outcome::kInformation:
      return text::Tint::kDim;
    case Verdict::Outcome::kPass:
      return text::Tint::kGreen;
    case Verdict::Outcome::kMiss:
      return text::Tint::kRed;
    case Verdict::Outcome::kNotMeasured:
      return text::Tint::kYellow;
  }
  return text::Tint::kPlain;
}

nlohmann::ordered_json ToJson(const Line& line) {
  const Verdict verdict = Judge(line);
  nlohmann::ordered_json json = {{"row", line.row},
                                 {"what", line.what},
                                 {"unit", line.unit},
                                 {"better", line.better == Better::kMore ? "more" : "less"}};
  if (!line.ours.empty()) json["ours"] = {{"median", verdict.ours}, {"rounds", line.ours}};
  json["rivals"] = nlohmann::json::array();
  for (const Series& rival : line.rivals) {
    if (rival.values.empty()) continue;
    json["rivals"].push_back({{"name", rival.name},
                              {"median", Median(rival.values)},
                              {"rounds", rival.values},
                              {"is_best", &rival == verdict.best_rival}});
  }
  if (verdict.best_rival != nullptr) json["ratio"] = verdict.ratio;
  json["goal"] = FormatGoal(line.goal);
  json["verdict"] = Name(verdict.outcome);
  json["note"] = line.note;
  json["foreign_cores"] = line.foreign_cores;
  return json;
}

}  // namespace

void PrintHeader(std::ostream& out, const Machine& machine) {
  out << "Lockstep " << kBuildVersion << ", " << machine.date << '\n'
      << machine.cpu << ", " << text::Plural(static_cast<uint64_t>(machine.cores), "core") << ", "
      << machine.kernel << '\n'
      << "build: " << machine.build << '\n';
  if (!machine.is_optimised) out << "WARNING: not an optimised build; these numbers mean nothing\n";
}

void PrintTable(std::ostream& out, const Report& report) {
  using Align = text::Table::Align;
  text::Table table({{"row"},
                     {"what"},
                     {"unit"},
                     {"ours", Align::kRight},
                     {"rival", Align::kRight},
                     {"best rival"},
                     {"ratio", Align::kRight},
                     {"goal", Align::kRight},
                     {"verdict"},
                     {"others", Align::kRight},
                     {"note"}});
  for (const Line& line : report.lines()) {
    const Verdict verdict = Judge(line);
    const bool has_rival = verdict.best_rival != nullptr;
    table.AddRow({line.row,
                  line.what,
                  line.unit,
                  line.ours.empty() ? "" : FormatNumber(verdict.ours),
                  has_rival ? FormatNumber(verdict.rival) : "",
                  has_rival ? verdict.best_rival->name : "",
                  has_rival ? FormatNumber(verdict.ratio) + "x" : "",
                  FormatGoal(line.goal),
                  {Name(verdict.outcome), TintOf(verdict.outcome)},
                  FormatNumber(line.foreign_cores),
                  {line.note, text::Tint::kDim}});
  }
  table.Print(out, text::Style::For(STDOUT_FILENO));
}

Status WriteJson(const std::string& path, const Machine& machine, const Report& report) {
  nlohmann::ordered_json json;
  json["machine"] = {{"cpu", machine.cpu},       {"cores", machine.cores},
                     {"kernel", machine.kernel}, {"date", machine.date},
                     {"build", machine.build},   {"is_optimised", machine.is_optimised},
                     {"version", kBuildVersion}};
  json["lines"] = nlohmann::json::array();
  for (const Line& line : report.lines()) json["lines"].push_back(ToJson(line));
  std::ofstream file(path);
  file << json.dump(2) << '\n';
  file.close();
  if (!file) return Unavailable("cannot write ", path);
  return OkStatus();
}

}  // namespace lockstep::bench
