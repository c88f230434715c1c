#include "runtime/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

namespace lockstep::log {
namespace {

spdlog::level::level_enum Of(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
    case Level::kCritical:
      return spdlog::level::critical;
  }
  return spdlog::level::critical;
}

}  // namespace

bool IsOn(Level level) { return spdlog::should_log(Of(level)); }

std::string Printable(const std::string& line) {
  std::string text;
  for (const char c : std::string_view(line).substr(0, kMaxLineBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      text += "\n    ";
    } else if ((byte < ' ' && c != '\t') || byte == 0x7f) {
      constexpr char kDigits[] = "0123456789abcdef";
      text += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      text += c;
    }
  }
  if (line.size() <= kMaxLineBytes) return text;
  return text + "... (" + std::to_string(line.size() - kMaxLineBytes) + " bytes more)";
}

void Write(Level level, const std::string& line) {
  spdlog::log(Of(level), spdlog::string_view_t(Printable(line)));
}

void Flush() { spdlog::default_logger()->flush(); }

void UseStandardError(const std::string& name) {
  auto logger = spdlog::stderr_logger_mt(name);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %L %n[%P] %v");
  spdlog::set_default_logger(std::move(logger));
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
