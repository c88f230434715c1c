#include <unistd.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/quantity.h"
#include "runtime/base/rank_text.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/program/check.h"
#include "tools/cli/program/runner.h"
#include "tools/cli/program/vocabulary.h"
#include "tools/cli/progress.h"
#include "tools/cli/session_interrupt.h"
#include "tools/cli/target.h"
#include "tools/cli/trace_file.h"
#include "tools/text/format.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

struct RunCommand {
  SessionTarget target;
  std::string file;
  bool check_only = false;
  bool list_steps = false;
  OutputFormat format = OutputFormat::kTable;
  WorkerOutputChoice worker_output = WorkerOutputChoice::kForward;
  std::string trace_file;  // empty: no timeline is recorded
};

// Counts expectations, and keeps the progress bar out of the other output's way.
class Report : public program::Observer {
 public:
  explicit Report(uint64_t total_steps) : bar_(total_steps, CanShowProgress()) {}

  void OnStep(const program::Step& step, uint64_t done) override {
    bar_.Advance(done, step.summary);
    executed_ = done + 1;
  }
  void OnPrint(const program::Step& step, const std::string& label,
               const std::vector<RankValue>& values) final {
    bar_.Erase();
    ShowPrint(step, label, values);
  }
  void OnVerdict(const program::Step& step, const program::Verdict& verdict) final {
    ++expectations_;
    if (!verdict.failures.empty()) ++failed_;
    bar_.Erase();
    ShowVerdict(step, verdict);
  }
  void Done() { bar_.Erase(); }

  uint64_t executed() const { return executed_; }
  uint64_t expectations() const { return expectations_; }
  uint64_t failed() const { return failed_; }

  // `status` is how the run ended.
  virtual void Finish(const program::Program& program, int workers,
                      std::chrono::milliseconds duration, const Status& status) = 0;

 protected:
  virtual void ShowPrint(const program::Step& step, const std::string& label,
                         const std::vector<RankValue>& values) = 0;
  virtual void ShowVerdict(const program::Step& step, const program::Verdict& verdict) = 0;

 private:
  ProgressBar bar_;
  uint64_t executed_ = 0;
  uint64_t expectations_ = 0;
  uint64_t failed_ = 0;
};

// Prints as the program goes, and a summary line at the end.
class TableReport final : public Report {
 public:
  TableReport(uint64_t total_steps, const std::string& file)
      : Report(total_steps), file_(file), style_(text::Style::For(STDOUT_FILENO)) {}

  void Finish(const program::Program& program, int workers, std::chrono::milliseconds duration,
              const Status& status) override {
    if (!status.ok()) return;
    std::string text = text::Printable(program.name) + ": " + text::Plural(executed(), "step") +
                       " on " + text::Plural(static_cast<uint64_t>(workers), "worker") + " in " +
                       RoundedDuration(duration);
    if (expectations() > 0) {
      text += ", " + text::FormatCount(expectations() - failed()) + " of " +
              text::Plural(expectations(), "expectation") + " met";
    }
    std::cout << style_.Paint(failed() == 0 ? text::Tint::kGreen : text::Tint::kRed, text) << '\n';
  }

 protected:
  void ShowPrint(const program::Step&, const std::string& label,
                 const std::vector<RankValue>& values) override {
    std::cout << style_.Paint(text::Tint::kBold, label) << '\n';
    for (const SharedValue& group : GroupEqual(values)) {
      const std::string ranks = ListRanks(group.ranks);
      std::cout << "  " << style_.Paint(text::Tint::kDim, ranks) << "  " << Render(*group.value)
                << '\n';
    }
    std::cout.flush();
  }
  void ShowVerdict(const program::Step& step, const program::Verdict& verdict) override {
    if (verdict.failures.empty()) return;
    std::cout << style_.Paint(text::Tint::kRed, "not as expected") << "  " << file_ << ":"
              << step.line << ": " << step.Title() << '\n';
    for (const program::Verdict::Failure& failure : verdict.failures) {
      std::cout << "  " << style_.Paint(text::Tint::kDim, "rank " + std::to_string(failure.rank))
                << "  " << failure.difference << '\n';
    }
    std::cout.flush();
  }

 private:
  const std::string file_;
  const text::Style style_;
};

// One JSON document at the end.
class JsonReport final : public Report {
 public:
  using Report::Report;

  void Finish(const program::Program& program, int workers, std::chrono::milliseconds duration,
              const Status& status) override {
    const Json document = {
        {"program", program.name},
        {"file", program.file},
        {"workers", workers},
        {"steps", executed()},
        {"milliseconds", duration.count()},
        {"ok", status.ok() && failed() == 0},
        {"error", status.ok() ? Json() : Json(Message(status))},
        {"prints", std::move(prints_)},
        {"expectations", std::move(expectations_)},
    };
    std::cout << ToText(document) << '\n';
  }

 protected:
  void ShowPrint(const program::Step& step, const std::string& label,
                 const std::vector<RankValue>& values) override {
    prints_.push_back(
        {{"line", step.line}, {"step", step.number}, {"label", label}, {"values", ToJson(values)}});
  }
  void ShowVerdict(const program::Step& step, const program::Verdict& verdict) override {
    Json failures = Json::array();
    for (const program::Verdict::Failure& failure : verdict.failures) {
      failures.push_back({{"rank", failure.rank}, {"difference", failure.difference}});
    }
    expectations_.push_back({{"line", step.line},
                             {"step", step.number},
                             {"expect", step.summary},
                             {"met", verdict.failures.empty()},
                             {"failures", std::move(failures)}});
  }

 private:
  Json prints_ = Json::array();
  Json expectations_ = Json::array();
};

Status ListSteps() {
  const text::Style style = text::Style::For(STDOUT_FILENO);
  for (const program::VerbSpec& verb : program::Vocabulary()) {
    std::cout << style.Paint(text::Tint::kBold, verb.name) << ": "
              << style.Paint(text::Tint::kDim, verb.operand) << "\n    " << verb.doc << '\n';
    for (const program::KeySpec& key : verb.keys) {
      std::cout << "    " << key.name << ": " << key.type << " - " << key.doc << '\n';
    }
    if (verb.makes_register) std::cout << "    as: name of the register that is made\n";
  }
  return OkStatus();
}

StatusOr<program::Program> ReadChecked(const std::string& file) {
  StatusOr<program::Program> program = program::LoadProgram(file);
  if (!program.ok()) return WithExitCode(program.status(), ExitCode::kUsage);
  return program;
}

Status RunProgram(RunCommand& command) {
  if (command.list_steps) return ListSteps();
  LOCKSTEP_ASSIGN_OR_RETURN(const program::Program program, ReadChecked(command.file));
  if (command.check_only) {
    std::cout << command.file << ": ok, " << text::Plural(program.NumExecuted(), "step") << '\n';
    return OkStatus();
  }
  const bool is_traced = !command.trace_file.empty();
  std::optional<InterruptGuard> interrupt;
  std::unique_ptr<SessionInterrupt> session_interrupt;
  if (is_traced) {
    LOCKSTEP_RETURN_IF_ERROR(CheckTraceFile(command.trace_file));
    LOCKSTEP_ASSIGN_OR_RETURN(InterruptGuard guard, InterruptGuard::Make());
    interrupt.emplace(std::move(guard));
  } else if (!command.target.embedded) {
    LOCKSTEP_ASSIGN_OR_RETURN(session_interrupt, SessionInterrupt::Make());
  }
  // An embedded cluster has as many workers as the program is written for.
  if (!command.target.workers.has_value()) command.target.workers = program.workers;
  SessionOptions options;
  options.name = program.name;
  options.num_groups = program.groups;
  options.timeout = program.timeout;
  options.on_output = WorkerOutputPrinter(command.worker_output, command.format);
  LOCKSTEP_ASSIGN_OR_RETURN(OpenSession open, Open(command.target, std::move(options)));
  Session& session = *open.session;
  const auto end_session = [controller = open.controller, id = session.id()]() -> Status {
    return controller.has_value() ? EndInterruptedSession(*controller, id) : OkStatus();
  };
  if (session_interrupt != nullptr) session_interrupt->Protect(end_session);
  LOCKSTEP_RETURN_IF_ERROR(
      WithExitCode(program::CheckProgram(program, session.num_workers()), ExitCode::kUsage));

  std::unique_ptr<Report> report;
  if (command.format == OutputFormat::kJson) {
    report = std::make_unique<JsonReport>(program.NumExecuted());
  } else {
    report = std::make_unique<TableReport>(program.NumExecuted(), program.file);
  }
  std::unique_ptr<RunTrace> trace;
  if (is_traced) {
    LOCKSTEP_ASSIGN_OR_RETURN(trace,
                              RunTrace::Start(session, command.trace_file, *std::move(interrupt),
                                              [end_session] { (void)end_session(); }));
  }
  const auto start = std::chrono::steady_clock::now();
  Status status = program::Runner(session, program, *report).Run();
  const auto duration = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  report->Done();
  // Also of a program that has failed: then it is wanted most.
  if (trace != nullptr) status.Update(trace->Write());
  trace.reset();
  if (status.ok()) status = session.Close();
  if (session_interrupt != nullptr) status = session_interrupt->Explain(status);
  session_interrupt.reset();
  report->Finish(program, session.num_workers(), duration, status);
  LOCKSTEP_RETURN_IF_ERROR(status);
  if (report->failed() == 0) return OkStatus();
  return WithExitCode(FailedPrecondition(text::Plural(report->failed(), "expectation"), " of ",
                                         report->expectations(), " not met"),
                      ExitCode::kExpectationFailed);
}

}  // namespace

void AddRun(Command lockstep) {
  Command command = lockstep.AddCommand("run", "Run a program file on a cluster");
  auto options = std::make_shared<RunCommand>();
  command.Add("PROGRAM", options->file, "YAML file; docs/program-file.md describes it")
      .Placeholder("");
  command.AddFlag("--check", options->check_only, "read and check the file, execute nothing");
  command.AddFlag("--list-steps", options->list_steps, "list all steps and their keys");
  command.Add("--trace", options->trace_file, "record a timeline of the run (docs/tracing.md)")
      .Placeholder("FILE");
  AddSessionOptions(command, options->target);
  AddOutputOption(command, options->format);
  AddWorkerOutputOption(command, options->worker_output);
  command.Examples(
      "  lockstep run examples/programs/hello.yaml --embedded --workers 4\n"
      "  lockstep run program.yaml --name demo\n"
      "  lockstep run program.yaml --output json | jq .prints\n"
      "  lockstep run program.yaml --trace trace.json\n"
      "  lockstep run --check program.yaml\n");
  command.Do([options]() -> Status {
    if (options->file.empty() && !options->list_steps) {
      return UsageError("PROGRAM is required; `lockstep run --help` tells more");
    }
    return RunProgram(*options);
  });
}

}  // namespace lockstep::cli
