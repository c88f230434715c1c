// What services tell their operators: one line per event.
//
//     2026-03-01T12:00:00.123 W lockstep-worker[4711] rank=2 epoch=17 session=3 failed: ...
//     {"time":"2026-03-01T12:00:00.123Z","level":"warning","service":"lockstep-worker","pid":4711,
//      "rank":2,"epoch":17,"session":3,"message":"failed: ..."}                      (as one line)
//
// spdlog writes the lines. Its formatting takes longer to compile than most files that log, so it
// stays behind this; a line is put together as a Status's message is.
//
// Threads: safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>

#include "runtime/base/deadline.h"

namespace lockstep::log {

enum class Level { kDebug, kInfo, kWarning, kError, kCritical };

// What an event is about. A part of this kind is no text of the line, but a field of it:
//     log::Warn(log::OfSession(3), "failed: ", why);
struct Context {
  std::optional<int> rank = {};
  std::optional<uint64_t> epoch = {};
  std::optional<uint32_t> session = {};

  // With what `other` says as well; that counts more.
  void Add(const Context& other);
};
inline Context OfSession(uint32_t session) { return {.session = session}; }
inline Context OfRank(int rank) { return {.rank = rank}; }

// What all that this thread logs is about, besides what its lines say.
Context& ThisThread();

// True if lines of this level are written.
bool IsOn(Level level);
// `line` may hold what a peer has sent: what would end it, or move a terminal's cursor, is written
// as
// "\n", "\x1b", and no more than kMaxLineBytes of it are.
inline constexpr size_t kMaxLineBytes = size_t{16} << 10;
void Write(Level level, const Context& context, const std::string& line);
// Hands what was written to the system; before a process ends that may not come to its end.
void Flush();

template <typename Part>
void Append(std::ostringstream& line, Context& /*context*/, const Part& part) {
  line << part;
}
inline void Append(std::ostringstream& /*line*/, Context& context, const Context& part) {
  context.Add(part);
}

template <typename... Parts>
void WriteParts(Level level, const Parts&... parts) {
  if (!IsOn(level)) return;
  std::ostringstream line;
  Context context;
  (Append(line, context, parts), ...);
  Write(level, context, line.str());
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

// A service's log: to standard error.
void UseStandardError(const std::string& name);
// ... from this level on ("debug", "info", "warning", "error"), as "text" or "json".
void Configure(const std::string& level, const std::string& format);
// In a user's program: warnings and errors to standard error, for standard output is not
// ours. A program that has set spdlog up itself keeps what it chose.
void UseStandardErrorForWarnings(const std::string& name);
// Nothing is written any more.
void Silence();

// The line without what comes before the fields, in each format. For Write(), and for tests.
std::string TextOf(const Context& context, const std::string& line);
std::string JsonOf(Level level, const Context& context, const std::string& line);

// Warnings that peers can cause: a peer that does so again and again must not fill the disk.
//
// Threads: safe.
class Limit {
 public:
  using Clock = Deadline::Clock;
  static constexpr std::chrono::minutes kPeriod{1};

  // How many are written each minute; how many more there were is told before the next one. `now`
  // tells the time, for tests.
  explicit Limit(int per_minute = 20, Clock::time_point (*now)() = &Clock::now)
      : per_minute_(per_minute), now_(now) {}

  template <typename... Parts>
  void Warn(const Parts&... parts) {
    int left_out = 0;
    if (!Take(&left_out)) return;
    if (left_out > 0) log::Warn("left out before the next line: ", left_out, " more like it");
    log::Warn(parts...);
  }

 private:
  // `left_out`: those of the minute before, where this one begins another.
  bool Take(int* left_out) {
    const Clock::time_point now = now_();
    std::lock_guard lock(mutex_);
    if (now >= end_) {
      end_ = now + kPeriod;
      *left_out = count_ > per_minute_ ? count_ - per_minute_ : 0;
      count_ = 0;
    }
    return ++count_ <= per_minute_;
  }

  const int per_minute_;
  Clock::time_point (*const now_)();
  std::mutex mutex_;
  Clock::time_point end_ = Clock::time_point::min();  // of the minute
  int count_ = 0;
};

}  // namespace lockstep::log
