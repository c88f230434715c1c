#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/quantity.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/target.h"
#include "tools/cli/top/cluster_rates.h"
#include "tools/cli/top/screen.h"
#include "tools/cli/top/top_text.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

// While a sample is taken, it is looked this often whether it is there.
constexpr std::chrono::milliseconds kTopPollInterval{50};

struct TopCommand {
  TargetOptions target;
  double interval_seconds = 2;
  bool once = false;
  bool all = false;
  OutputFormat format = OutputFormat::kTable;

  std::chrono::milliseconds interval() const {
    return std::chrono::milliseconds(static_cast<int64_t>(interval_seconds * 1000));
  }
};

StatusOr<Sample> TakeSample(const ControllerAddress& controller, const TargetOptions& target) {
  LOCKSTEP_ASSIGN_OR_RETURN(ClusterStatus status, QueryCluster(controller, target));
  return Sample{std::move(status), Clock::now()};
}

// Two samples, and what happened between them.
Status ShowOnce(const TopCommand& command, const ControllerAddress& controller) {
  LOCKSTEP_ASSIGN_OR_RETURN(InterruptGuard interrupt, InterruptGuard::Make());
  LOCKSTEP_ASSIGN_OR_RETURN(const Sample before, TakeSample(controller, command.target));
  pollfd interrupted{interrupt.fd(), POLLIN, 0};
  poll(&interrupted, 1, static_cast<int>(command.interval().count()));
  if (interrupt.Take()) {
    return WithExitCode(Status(StatusCode::kCancelled, "interrupted between the two samples"),
                        ExitCode::kInterrupted);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const Sample after, TakeSample(controller, command.target));
  const TopView view{after.status, RatesBetween(before, after), ""};
  if (command.format == OutputFormat::kJson) {
    std::cout << ToText(TopToJson(view)) << '\n';
    return OkStatus();
  }
  TopWindow whole;
  whole.each = command.all;
  for (const std::string& line : RenderTop(view, text::Style::For(STDOUT_FILENO), whole)) {
    std::cout << line << '\n';
  }
  return OkStatus();
}

std::string AgeOf(const Sample& sample) {
  const auto age =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - sample.taken);
  return "this is " + RoundedDuration(age) + " old: ";
}

Status ShowLive(const TopCommand& command, const ControllerAddress& controller) {
  LOCKSTEP_ASSIGN_OR_RETURN(InterruptGuard interrupt, InterruptGuard::Make());
  LOCKSTEP_ASSIGN_OR_RETURN(Sample last, TakeSample(controller, command.target));
  const StatusOr<std::unique_ptr<Screen>> screen = Screen::Open();
  if (!screen.ok()) {
    return UsageError(Message(screen.status()),
                      "; `lockstep top --once` prints one view as plain text");
  }
  const text::Style style = text::Style::For(STDOUT_FILENO);
  TopView view{last.status, RatesBetween(last, last), ""};
  TopWindow window;
  window.each = command.all;
  Sampler sampler(controller, command.target.timeout());
  Deadline next = Deadline::After(command.interval());
  while (true) {
    window.width = (*screen)->width();
    window.height = (*screen)->height();
    (*screen)->Draw(RenderTop(view, style, window));
    const Deadline look = sampler.is_busy() ? Deadline::After(kTopPollInterval) : next;
    const Screen::Event event = (*screen)->Wait(interrupt.fd(), look);
    switch (event) {
      case Screen::Event::kInterrupt:
        interrupt.Take();
        return OkStatus();
      case Screen::Event::kQuit:
        return OkStatus();
      case Screen::Event::kUp:
        --window.first;
        continue;
      case Screen::Event::kDown:
        ++window.first;
        continue;
      case Screen::Event::kPageUp:
        window.first -= window.height / 2;
        continue;
      case Screen::Event::kPageDown:
        window.first += window.height / 2;
        continue;
      case Screen::Event::kAll:
      case Screen::Event::kGroups:
        window.each = event == Screen::Event::kAll;
        continue;
      case Screen::Event::kResize:
        continue;
      case Screen::Event::kTime:
        break;
    }
    if (!sampler.is_busy()) {
      sampler.Start();
      next = Deadline::After(command.interval());
      continue;
    }
    std::optional<StatusOr<Sample>> now = sampler.Take();
    if (!now.has_value()) {
      const bool is_late = Clock::now() - last.taken > 2 * command.interval();
      if (is_late) view.trouble = AgeOf(last) + "the controller has not answered yet";
      continue;
    }
    if (!now->ok()) {
      view.trouble = AgeOf(last) + Message(now->status());
      continue;
    }
    view = {(*now)->status, RatesBetween(last, **now), ""};
    last = **std::move(now);
  }
}

}  // namespace

void AddTop(Command lockstep) {
  Command command = lockstep.AddCommand("top", "Watch workers, rates, skew and sessions, live");
  auto options = std::make_shared<TopCommand>();
  AddTargetOptions(command, options->target);
  command.Add("-i,--interval", options->interval_seconds, "seconds between two looks")
      .Between(0.1, 3600.0)
      .Placeholder("SECONDS")
      .ShowDefault();
  Option once = command.AddFlag("--once", options->once,
                                "look twice and print the difference, as plain text");
  command.AddFlag("-a,--all", options->all,
                  "a line for each worker; of more than 16, those that do the\n"
                  "same share one without it");
  AddOutputOption(command, options->format);
  command.Get("--output").Needs(once);
  command.Examples(
      "  lockstep top\n"
      "  lockstep top --once --interval 1\n"
      "  lockstep top --once --output json | jq '.workers[] | select(.last_share > 0.5)'\n\n"
      "q ends it, arrows scroll, a and g show all workers or groups of them.\n\n"
      "For each worker, over the last interval: commands finished (CMD/S), batches in\n"
      "its QUEUE, MOVED by collectives over its bus (nccl-tests' bus bytes; each counts\n"
      "when it ends), BUSY the share of the time in collectives, waiting included, LAST\n"
      "to how many of them it came last, and LATE how long after the first, on average.\n");
  command.Do([options]() -> Status {
    LOCKSTEP_ASSIGN_OR_RETURN(const ControllerAddress controller,
                              ResolveController(options->target));
    return options->once ? ShowOnce(*options, controller) : ShowLive(*options, controller);
  });
}

}  // namespace lockstep::cli
