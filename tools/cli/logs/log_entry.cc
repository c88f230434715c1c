#include "tools/cli/logs/log_entry.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

using log::Level;
using Time = std::chrono::sys_time<std::chrono::milliseconds>;

constexpr std::array<const char*, 5> kLevelNames = {"debug", "info", "warning", "error",
                                                    "critical"};
constexpr char kLevelLetters[] = "DIWEC";

// Of "2026-03-01T12:00:00.123", in local time or in UTC.
std::optional<Time> ParseTime(const char* text, bool is_utc) {
  tm parts{};
  int millis = 0;
  if (std::sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%3d", &parts.tm_year, &parts.tm_mon,
                  &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &millis) != 7) {
    return std::nullopt;
  }
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  parts.tm_isdst = -1;
  const time_t seconds = is_utc ? timegm(&parts) : mktime(&parts);
  return Time(std::chrono::seconds(seconds)) + std::chrono::milliseconds(millis);
}

// Takes "rank=2 " and the like from the front of `text`.
template <typename Number>
void TakeField(std::string& text, const std::string& name, std::optional<Number>& field) {
  if (!text.starts_with(name + "=")) return;
  char* end = nullptr;
  const char* const digits = text.c_str() + name.size() + 1;
  const unsigned long long value = std::strtoull(digits, &end, 10);
  if (end == digits || *end != ' ') return;
  field = static_cast<Number>(value);
  text.erase(0, static_cast<size_t>(end + 1 - text.c_str()));
}

// TIME LEVEL PROGRAM[PID] FIELDS MESSAGE
bool ParseText(const std::string& line, LogEntry& entry) {
  constexpr size_t kTimeLength = 23;
  if (line.size() < kTimeLength + 4 || line[kTimeLength] != ' ' || line[kTimeLength + 2] != ' ') {
    return false;
  }
  const char* const letter = std::strchr(kLevelLetters, line[kTimeLength + 1]);
  const size_t open = line.find('[', kTimeLength + 3);
  const size_t close = line.find("] ", kTimeLength + 3);
  if (letter == nullptr || open == std::string::npos || close == std::string::npos ||
      open > close) {
    return false;
  }
  const std::optional<Time> time = ParseTime(line.c_str(), /*is_utc=*/false);
  if (!time.has_value()) return false;
  entry.time = *time;
  entry.level = static_cast<Level>(letter - kLevelLetters);
  entry.program = line.substr(kTimeLength + 3, open - kTimeLength - 3);
  entry.pid = std::atoi(line.c_str() + open + 1);
  entry.message = line.substr(close + 2);
  TakeField(entry.message, "rank", entry.context.rank);
  TakeField(entry.message, "epoch", entry.context.epoch);
  TakeField(entry.message, "session", entry.context.session);
  return true;
}

bool ParseJson(const std::string& line, LogEntry& entry) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return false;
  const auto text = [&](const char* name) -> std::string {
    const auto found = json.find(name);
    return found != json.end() && found->is_string() ? found->get<std::string>() : "";
  };
  const auto number = [&](const char* name, auto& field) {
    using Field = std::decay_t<decltype(*field)>;
    const auto found = json.find(name);
    if (found != json.end() && found->is_number_integer()) field = found->get<Field>();
  };
  const std::optional<Time> time = ParseTime(text("time").c_str(), /*is_utc=*/true);
  const std::optional<Level> level = LevelNamed(text("level"));
  if (!time.has_value() || !level.has_value()) return false;
  entry.time = *time;
  entry.level = level;
  entry.program = text("service");
  std::optional<int> pid;
  number("pid", pid);
  entry.pid = pid.value_or(0);
  number("rank", entry.context.rank);
  number("epoch", entry.context.epoch);
  number("session", entry.context.session);
  entry.message = text("message");
  return true;
}

std::string TimeText(Time time, bool is_utc) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto count = static_cast<time_t>(seconds.time_since_epoch().count());
  tm parts{};
  is_utc ? gmtime_r(&count, &parts) : localtime_r(&count, &parts);
  char text[64];
  const size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + length, sizeof text - length, ".%03d%s",
                static_cast<int>((time - seconds).count()), is_utc ? "Z" : "");
  return text;
}

text::Tint TintOf(Level level) {
  switch (level) {
    case Level::kDebug:
      return text::Tint::kDim;
    case Level::kInfo:
      return text::Tint::kPlain;
    case Level::kWarning:
      return text::Tint::kYellow;
    case Level::kError:
    case Level::kCritical:
      return text::Tint::kRed;
  }
  return text::Tint::kPlain;
}

}  // namespace

std::optional<Level> LevelNamed(const std::string& name) {
  if (name == "warn") return Level::kWarning;
  const auto found = std::find(kLevelNames.begin(), kLevelNames.end(), name);
  if (found == kLevelNames.end()) return std::nullopt;
  return static_cast<Level>(found - kLevelNames.begin());
}

LogEntry ParseLogLine(const std::string& line) {
  LogEntry entry;
  if (line.starts_with('{') ? ParseJson(line, entry) : ParseText(line, entry)) return entry;
  entry = LogEntry();
  entry.message = line;
  return entry;
}

std::string RenderLogEntry(const LogEntry& entry, const text::Style& style, int source_width) {
  const int missing = std::max(0, source_width - text::DisplayWidth(entry.source));
  const std::string source = entry.source + std::string(static_cast<size_t>(missing), ' ');
  const bool has_time = entry.time.time_since_epoch().count() != 0;
  const std::string time = has_time ? TimeText(entry.time, /*is_utc=*/false) : "";
  std::string text = style.Paint(text::Tint::kDim,
                                 time + std::string(23 - std::min<size_t>(time.size(), 23), ' '));
  if (!entry.level.has_value()) {
    return text + "   " + style.Paint(text::Tint::kDim, source) + "  " +
           text::Printable(entry.message);
  }
  const char letter[] = {kLevelLetters[static_cast<size_t>(*entry.level)], '\0'};
  // The message is printable by now, unless a JSON string had it.
  std::string fields = log::TextOf(entry.context, "");
  return text + " " + style.Paint(TintOf(*entry.level), letter) + " " +
         style.Paint(text::Tint::kDim, source) + "  " + fields +
         style.Paint(TintOf(*entry.level), text::Printable(entry.message));
}

Json LogEntryToJson(const LogEntry& entry) {
  Json json;
  const bool has_time = entry.time.time_since_epoch().count() != 0;
  json["time"] = has_time ? Json(TimeText(entry.time, /*is_utc=*/true)) : Json();
  json["source"] = entry.source;
  json["level"] =
      entry.level.has_value() ? Json(kLevelNames[static_cast<size_t>(*entry.level)]) : Json();
  if (!entry.program.empty()) json["service"] = entry.program;
  if (entry.pid != 0) json["pid"] = entry.pid;
  if (entry.context.rank.has_value()) json["rank"] = *entry.context.rank;
  if (entry.context.epoch.has_value()) json["epoch"] = *entry.context.epoch;
  if (entry.context.session.has_value()) json["session"] = *entry.context.session;
  json["message"] = entry.message;
  return json;
}

}  // namespace lockstep::cli
