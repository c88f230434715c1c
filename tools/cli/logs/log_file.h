// A service's log file, read from some place near its end on, and then as it grows.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "tools/cli/logs/log_entry.h"

namespace lockstep::cli {

// Which lines are wanted. A line that is none of the log's own is: it may be the last word of a
// process that has ended badly.
struct LogFilter {
  log::Level level = log::Level::kDebug;  // from this on

  bool Wants(const LogEntry& entry) const {
    return !entry.level.has_value() || *entry.level >= level;
  }
};

// Threads: one. Files that grow while they are read, are cut, or do not exist yet are as good as
// any; one that is removed is read to its end.
// Errors: kInternal a file that cannot be read.
class LogFile {
 public:
  // More of a line is dropped.
  static constexpr size_t kMaxLineBytes = size_t{64} << 10;

  LogFile(std::string source, std::string path)
      : source_(std::move(source)), path_(std::move(path)) {}
  LogFile(LogFile&& other) noexcept;
  LogFile& operator=(LogFile&&) = delete;
  ~LogFile();

  const std::string& source() const { return source_; }

  // Reads from here on no more than is needed for its last `lines` lines.
  Status SkipToLast(size_t lines);
  // The last `most` lines that `filter` wants, of those that have come since the last call, in
  // their order. Their times do not go backwards. A line is read when its end is there; with
  // `to_the_end`, also what the file ends with.
  StatusOr<std::vector<LogEntry>> Read(const LogFilter& filter, size_t most, bool to_the_end);

 private:
  class Tail;
  // How many bytes it has, and when it was written last; 0 if it does not exist yet.
  StatusOr<uint64_t> Size();
  Status CannotRead() const;
  void Take(const LogFilter& filter, Tail& tail);

  const std::string source_;
  const std::string path_;
  int fd_ = -1;  // none: it did not exist yet
  uint64_t offset_ = 0;
  std::string line_;  // what has come of the line that is being read
  std::chrono::sys_time<std::chrono::milliseconds> last_time_;
  std::chrono::sys_time<std::chrono::milliseconds> modified_;
};

// All together by time; what one file says stays in its order.
std::vector<LogEntry> MergeByTime(std::vector<std::vector<LogEntry>> files);

}  // namespace lockstep::cli
