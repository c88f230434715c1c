#include "runtime/base/log.h"

#include <fcntl.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <ctime>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "runtime/base/utf8.h"

namespace lockstep::log {
namespace {

struct LevelName {
  Level level;
  spdlog::level::level_enum of_library;
  const char* name;
};
constexpr std::array kLevels = {
    LevelName{Level::kDebug, spdlog::level::debug, "debug"},
    LevelName{Level::kInfo, spdlog::level::info, "info"},
    LevelName{Level::kWarning, spdlog::level::warn, "warning"},
    LevelName{Level::kError, spdlog::level::err, "error"},
    LevelName{Level::kCritical, spdlog::level::critical, "critical"},
};
const LevelName& Of(Level level) { return kLevels[static_cast<size_t>(level)]; }

std::atomic<bool> as_json{false};

using StandardErrorSink = spdlog::sinks::stdout_sink_base<spdlog::details::console_mutex>;

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%e %L %n[%P] %v";

// Control characters in C's notation: neither another line nor a terminal's commands come of what
// clients call themselves.
void AppendPrintable(std::string& text, const std::string& bytes) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      text += c;
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else {
      text += HexEscape(c);
    }
  }
}

// A JSON string (RFC 8259). Bytes that are no UTF-8 become U+FFFD.
std::string Quoted(const std::string& bytes) {
  std::string text = "\"";
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = Utf8SequenceLength(std::string_view(bytes).substr(at));
    const auto byte = static_cast<unsigned char>(bytes[at]);
    if (size == 0) {
      text += "\\ufffd";
      ++at;
      continue;
    }
    if (byte == '"' || byte == '\\') {
      text += '\\';
      text += bytes[at];
    } else if (byte < 0x20 || byte == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      text += escape;
    } else {
      text.append(bytes, at, size);
    }
    at += size;
  }
  return text + "\"";
}

std::string NowInUtc() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  char text[40];
  const size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + length, sizeof text - length, ".%03dZ",
                static_cast<int>(now.tv_nsec / 1'000'000));
  return text;
}

// A line, cut off where it is longer than a reader needs.
std::string Bounded(const std::string& line) {
  if (line.size() <= kMaxLineBytes) return line;
  return line.substr(0, kMaxLineBytes) + "... (" + std::to_string(line.size() - kMaxLineBytes) +
         " bytes more)";
}

}  // namespace

void Context::Add(const Context& other) {
  if (other.rank.has_value()) rank = other.rank;
  if (other.epoch.has_value()) epoch = other.epoch;
  if (other.session.has_value()) session = other.session;
}

Context& ThisThread() {
  thread_local Context context;
  return context;
}

std::string TextOf(const Context& context, const std::string& line) {
  std::string text;
  if (context.rank.has_value()) text += "rank=" + std::to_string(*context.rank) + " ";
  if (context.epoch.has_value()) text += "epoch=" + std::to_string(*context.epoch) + " ";
  if (context.session.has_value()) text += "session=" + std::to_string(*context.session) + " ";
  AppendPrintable(text, Bounded(line));
  return text;
}

std::string JsonOf(Level level, const Context& context, const std::string& line) {
  std::string text = "\"level\":\"" + std::string(Of(level).name) + "\"";
  text += ",\"service\":" + Quoted(spdlog::default_logger()->name());
  text += ",\"pid\":" + std::to_string(getpid());
  if (context.rank.has_value()) text += ",\"rank\":" + std::to_string(*context.rank);
  if (context.epoch.has_value()) text += ",\"epoch\":" + std::to_string(*context.epoch);
  if (context.session.has_value()) text += ",\"session\":" + std::to_string(*context.session);
  return text + ",\"message\":" + Quoted(Bounded(line));
}

bool IsOn(Level level) { return spdlog::should_log(Of(level).of_library); }

void Write(Level level, const Context& context, const std::string& line) {
  Context all = ThisThread();
  all.Add(context);
  const std::string text =
      as_json ? "{\"time\":\"" + NowInUtc() + "\"," + JsonOf(level, all, line) + "}"
              : TextOf(all, line);
  spdlog::log(Of(level).of_library, spdlog::string_view_t(text));
}

void Flush() { spdlog::default_logger()->flush(); }

void UseStandardError(const std::string& name) {
  // A descriptor of its own: what functions print may go elsewhere for a while, lines of the log
  // never.
  std::FILE* const copy = fdopen(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3), "w");
  auto logger = std::make_shared<spdlog::logger>(
      name, std::make_shared<StandardErrorSink>(copy == nullptr ? stderr : copy));
  logger->set_pattern(kTextPattern);
  spdlog::set_default_logger(std::move(logger));
}

void Configure(const std::string& level, const std::string& format) {
  for (const LevelName& known : kLevels) {
    if (level == known.name) spdlog::default_logger()->set_level(known.of_library);
  }
  as_json = format == "json";
  spdlog::default_logger()->set_pattern(as_json ? "%v" : kTextPattern);
}

void UseStandardErrorForWarnings(const std::string& name) {
  static std::once_flag once;
  std::call_once(once, [&name] {
    if (!spdlog::default_logger()->name().empty()) return;
    auto logger = spdlog::stderr_logger_mt(name);
    logger->set_level(spdlog::level::warn);
    spdlog::set_default_logger(std::move(logger));
  });
}

void Silence() { spdlog::set_default_logger(std::make_shared<spdlog::logger>("silent")); }

}  // namespace lockstep::log
