#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/logs/log_file.h"
#include "tools/cli/logs/log_place.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::milliseconds kLook{200};
constexpr size_t kAll = std::numeric_limits<size_t>::max();

struct LogsCommand {
  std::string endpoint;
  std::string name;
  std::optional<int> rank;
  bool controller = false;
  std::optional<int> lines;
  std::string level = "debug";
  bool follow = false;
  OutputFormat format = OutputFormat::kTable;

  size_t most() const { return static_cast<size_t>(lines.value_or(100)); }
};

class Printer {
 public:
  Printer(const LogsCommand& command, const std::vector<LogFile>& files)
      : as_json_(command.format == OutputFormat::kJson) {
    for (const LogFile& file : files) {
      source_width_ = std::max(source_width_, text::DisplayWidth(file.source()));
    }
  }

  // The last `most` of them.
  void Print(const std::vector<LogEntry>& entries, size_t most) const {
    const size_t first = entries.size() - std::min(entries.size(), most);
    for (size_t i = first; i < entries.size(); ++i) {
      std::cout
          << (as_json_
                  ? LogEntryToJson(entries[i]).dump(-1, ' ', false, Json::error_handler_t::replace)
                  : RenderLogEntry(entries[i], style_, source_width_))
          << '\n';
    }
    std::cout.flush();
  }

 private:
  const bool as_json_;
  const text::Style style_ = text::Style::For(STDOUT_FILENO);
  int source_width_ = 0;
};

// What has come to all files since the last call, the last `most` lines of each.
StatusOr<std::vector<LogEntry>> ReadAll(std::vector<LogFile>& files, const LogFilter& filter,
                                        size_t most, bool to_the_end) {
  std::vector<std::vector<LogEntry>> entries;
  for (LogFile& file : files) {
    LOCKSTEP_ASSIGN_OR_RETURN(entries.emplace_back(), file.Read(filter, most, to_the_end));
  }
  return MergeByTime(std::move(entries));
}

Status ShowLogs(const LogsCommand& command) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ClusterRecord cluster, FindLogs(command.endpoint, command.name));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<LogSource> sources,
                            SourcesOf(cluster, command.rank, command.controller));
  std::vector<LogFile> files;
  for (const LogSource& source : sources) files.emplace_back(source.name, source.path);
  const LogFilter filter{LevelNamed(command.level).value_or(log::Level::kDebug)};
  // Where all lines are wanted, the last ones can be found from the end.
  for (LogFile& file : files) {
    if (filter.level == log::Level::kDebug) {
      LOCKSTEP_RETURN_IF_ERROR(file.SkipToLast(command.most()));
    }
  }
  const Printer printer(command, files);
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<LogEntry> entries,
                            ReadAll(files, filter, command.most(), !command.follow));
  if (!command.follow) {
    printer.Print(entries, command.most());
    return OkStatus();
  }
  // Until here ^C ends it as it ends any program: long logs take long to read. Whoever sees the
  // first lines ends it in order.
  LOCKSTEP_ASSIGN_OR_RETURN(InterruptGuard interrupt, InterruptGuard::Make());
  printer.Print(entries, command.most());
  while (true) {
    // Looked at before the files are: what it has said before its end is read.
    const bool has_ended = !cluster.IsAlive();
    LOCKSTEP_ASSIGN_OR_RETURN(entries, ReadAll(files, filter, kAll, has_ended));
    printer.Print(entries, kAll);
    if (has_ended) {
      std::cerr << "the cluster \"" << cluster.name << "\" has ended\n";
      return OkStatus();
    }
    pollfd interrupted{interrupt.fd(), POLLIN, 0};
    poll(&interrupted, 1, static_cast<int>(kLook.count()));
    if (interrupt.Take()) return OkStatus();
  }
}

}  // namespace

void AddLogs(Command lockstep) {
  Command command = lockstep.AddCommand(
      "logs", "Show the logs of a cluster that `lockstep up` has started, also of a dead one");
  auto options = std::make_shared<LogsCommand>();
  Option connect =
      command.Add("-c,--connect", options->endpoint, "the cluster with this endpoint for clients")
          .Placeholder("ENDPOINT");
  command
      .Add("--name", options->name, "the cluster of this name; without both: the only one there is")
      .Placeholder("NAME")
      .Excludes(connect);
  Option rank = command.Add("-r,--rank", options->rank, "of this worker alone")
                    .Between(0, 2'147'483'647)
                    .Placeholder("R");
  command.AddFlag("--controller", options->controller, "of the controller alone").Excludes(rank);
  command.Add("-n,--lines", options->lines, "the last N lines, of all together (100)")
      .Between(0, 2'147'483'647)
      .Placeholder("N");
  command
      .Add("-l,--level", options->level,
           "from this level on: debug, info, warn, error, critical; lines that the log has not\n"
           "written itself (a module's, a crash's) are always shown")
      .OneOf({"debug", "info", "warn", "warning", "error", "critical"})
      .Placeholder("LEVEL");
  command.AddFlag("-f,--follow", options->follow,
                  "go on with what comes, until ^C or the cluster's end");
  AddOutputOption(command, options->format);
  command.Examples(
      "  lockstep logs\n"
      "  lockstep logs --rank 1 -n 20\n"
      "  lockstep logs --level warn\n"
      "  lockstep logs --follow\n"
      "  lockstep logs --output json | jq 'select(.session == 3)'\n\n"
      "The services' lines are merged by time. With --output json each line is an object.\n");
  command.Do([options] { return ShowLogs(*options); });
}

}  // namespace lockstep::cli
