#include "tools/cli/logs/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <iterator>
#include <string_view>
#include <utility>

namespace lockstep::cli {
namespace {

constexpr size_t kBlockBytes = size_t{64} << 10;

}  // namespace

// The last of the entries that have come.
class LogFile::Tail {
 public:
  explicit Tail(size_t most) : most_(most) {}
  void Add(LogEntry entry) {
    if (most_ == 0) return;
    if (entries_.size() == most_) entries_.pop_front();
    entries_.push_back(std::move(entry));
  }
  bool EndsWithoutTime() const { return !entries_.empty() && !HasTime(entries_.back()); }
  // Of the last entries, those that say no time.
  void SetTimes(std::chrono::sys_time<std::chrono::milliseconds> time) {
    for (auto entry = entries_.rbegin(); entry != entries_.rend() && !HasTime(*entry); ++entry) {
      entry->time = time;
    }
  }
  static bool HasTime(const LogEntry& entry) { return entry.time.time_since_epoch().count() != 0; }
  std::vector<LogEntry> All() && {
    return {std::make_move_iterator(entries_.begin()), std::make_move_iterator(entries_.end())};
  }

 private:
  const size_t most_;
  std::deque<LogEntry> entries_;
};

LogFile::LogFile(LogFile&& other) noexcept
    : source_(other.source_),
      path_(other.path_),
      fd_(std::exchange(other.fd_, -1)),
      offset_(other.offset_),
      line_(std::move(other.line_)),
      last_time_(other.last_time_),
      modified_(other.modified_) {}

LogFile::~LogFile() {
  if (fd_ >= 0) close(fd_);
}

Status LogFile::CannotRead() const {
  return Internal("cannot read ", path_, ": ", std::strerror(errno));
}

StatusOr<uint64_t> LogFile::Size() {
  if (fd_ < 0) fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0 && errno == ENOENT) return 0;
  struct stat info {};
  if (fd_ < 0 || fstat(fd_, &info) != 0) return CannotRead();
  modified_ = std::chrono::sys_time<std::chrono::milliseconds>(
      std::chrono::seconds(info.st_mtim.tv_sec) +
      std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::nanoseconds(info.st_mtim.tv_nsec)));
  return static_cast<uint64_t>(info.st_size);
}

Status LogFile::SkipToLast(size_t lines) {
  LOCKSTEP_ASSIGN_OR_RETURN(uint64_t end, Size());
  std::string block(kBlockBytes, '\0');
  // Behind the end of the line before the first that is wanted. The file's own end counts, too.
  size_t ends = 0;
  while (end > 0) {
    const uint64_t begin = end - std::min<uint64_t>(end, kBlockBytes);
    const ssize_t count = pread(fd_, block.data(), end - begin, static_cast<off_t>(begin));
    if (count < 0) return CannotRead();
    for (ssize_t i = count - 1; i >= 0; --i) {
      if (block[static_cast<size_t>(i)] != '\n' || ++ends <= lines) continue;
      offset_ = begin + static_cast<uint64_t>(i) + 1;
      return OkStatus();
    }
    end = begin;
  }
  return OkStatus();
}

void LogFile::Take(const LogFilter& filter, Tail& tail) {
  LogEntry entry = ParseLogLine(line_);
  line_.clear();
  entry.source = source_;
  if (Tail::HasTime(entry)) {
    // A clock that was put back does not take lines out of their order.
    last_time_ = entry.time = std::max(entry.time, last_time_);
    tail.SetTimes(entry.time);
  }
  if (filter.Wants(entry)) tail.Add(std::move(entry));
}

StatusOr<std::vector<LogEntry>> LogFile::Read(const LogFilter& filter, size_t most,
                                              bool to_the_end) {
  Tail tail(most);
  LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t size, Size());
  if (size < offset_) offset_ = 0;  // it was cut
  std::string block(kBlockBytes, '\0');
  // No further than it was long: one that grows faster than it is read has no end.
  while (fd_ >= 0 && offset_ < size) {
    const size_t wanted = std::min<uint64_t>(block.size(), size - offset_);
    const ssize_t count = pread(fd_, block.data(), wanted, static_cast<off_t>(offset_));
    if (count < 0) return CannotRead();
    if (count == 0) break;
    offset_ += static_cast<uint64_t>(count);
    for (const char c : std::string_view(block.data(), static_cast<size_t>(count))) {
      if (c == '\n') {
        Take(filter, tail);
      } else if (line_.size() < kMaxLineBytes) {
        line_ += c;
      }
    }
  }
  if (to_the_end && !line_.empty()) Take(filter, tail);
  // What comes last was written when the file was.
  if (tail.EndsWithoutTime()) tail.SetTimes(last_time_ = std::max(last_time_, modified_));
  return std::move(tail).All();
}

std::vector<LogEntry> MergeByTime(std::vector<std::vector<LogEntry>> files) {
  std::vector<LogEntry> all;
  for (std::vector<LogEntry>& file : files) {
    std::move(file.begin(), file.end(), std::back_inserter(all));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const LogEntry& a, const LogEntry& b) { return a.time < b.time; });
  return all;
}

}  // namespace lockstep::cli
