// What services tell their operators: one line per event.
//
// spdlog writes the lines. Its formatting takes longer to compile than most files that log, so it
// stays behind this; a line is put together as a Status's message is.
//
// Threads: safe.
#pragma once

#include <cstddef>
#include <sstream>
#include <string>

namespace lockstep::log {

enum class Level { kDebug, kInfo, kWarning, kError, kCritical };

// True if lines of this level are written.
bool IsOn(Level level);
void Write(Level level, const std::string& line);
// What is written of a line, which may hold what a peer has sent: at most kMaxLineBytes, without
// control characters; after a line's end comes an indent, so that what follows looks like no line
// of its own.
inline constexpr size_t kMaxLineBytes = 16 << 10;
std::string Printable(const std::string& line);
// Hands what was written to the system; before a process ends that may not come to its end.
void Flush();

template <typename... Parts>
void WriteParts(Level level, const Parts&... parts) {
  if (!IsOn(level)) return;
  std::ostringstream line;
  (line << ... << parts);
  Write(level, line.str());
}

template <typename... Parts>
void Debug(const Parts&... parts) {
  WriteParts(Level::kDebug, parts...);
}
template <typename... Parts>
void Info(const Parts&... parts) {
  WriteParts(Level::kInfo, parts...);
}
template <typename... Parts>
void Warn(const Parts&... parts) {
  WriteParts(Level::kWarning, parts...);
}
template <typename... Parts>
void Error(const Parts&... parts) {
  WriteParts(Level::kError, parts...);
}
template <typename... Parts>
void Critical(const Parts&... parts) {
  WriteParts(Level::kCritical, parts...);
}

// A service's log: to standard error, with time, level, name and process id.
void UseStandardError(const std::string& name);
// In somebody else's program: warnings and errors to standard error, for standard output is not
// ours. A program that has set spdlog up itself keeps what it chose.
void UseStandardErrorForWarnings(const std::string& name);
// Nothing is written any more.
void Silence();

}  // namespace lockstep::log
