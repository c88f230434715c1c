// One line of a service's log, of either format (runtime/base/log.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/log.h"
#include "tools/cli/value_text.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {

struct LogEntry {
  std::string source;  // "controller", "worker-2"
  // When it was written. A line that does not say takes the time of the next one in its file that
  // does, or of the file's last change: it was written before that.
  std::chrono::sys_time<std::chrono::milliseconds> time;
  // None: the line is none of the log's own. Something else has written it: a module, a sanitizer,
  // the C library when a process ends badly.
  std::optional<log::Level> level;
  std::string program;
  int pid = 0;
  log::Context context;
  std::string message;  // as it stands there, which may be anything
};

// `source` and, of a line that says nothing of them, time and level are left alone.
LogEntry ParseLogLine(const std::string& line);

// "debug", "info", "warning" (or "warn"), "error", "critical"
std::optional<log::Level> LevelNamed(const std::string& name);

// "2026-03-01T12:00:00.123 W worker-2    rank=2 epoch=17 session failed: ...", in local time. The
// source is as wide as `source_width`.
std::string RenderLogEntry(const LogEntry& entry, const text::Style& style, int source_width);
// In one line.
Json LogEntryToJson(const LogEntry& entry);

}  // namespace lockstep::cli
