// `lockstep plan analyze`: a plan on real workers, with zeros for its inputs.
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/quantity.h"
#include "runtime/base/rank_text.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/fragment/fragment_file.h"
#include "tools/cli/plan/analysis.h"
#include "tools/cli/plan/builtin_names.h"
#include "tools/cli/plan/plan_file.h"
#include "tools/cli/program/parse.h"
#include "tools/cli/session_interrupt.h"
#include "tools/cli/target.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

using plan_file::PlanFile;

// Before it is measured: pages are touched and connections are warm then.
constexpr int kWarmUp = 3;
constexpr int kTimes = 20;

// That one thread records at most (TraceOptions::events).
constexpr size_t kMostEvents = 262'144;

// What is sent by way of worker-0 for one input.
constexpr int64_t kMostInputBytes = int64_t{1} << 30;

struct AnalyzeCommand {
  SessionTarget target;
  std::string file;
  std::string module;
  std::optional<int> times;
  std::optional<int> rank;
  OutputFormat format = OutputFormat::kTable;
  WorkerOutputChoice worker_output = WorkerOutputChoice::kForward;
};

// The paths of the modules that the file's ordinary steps load, by their registers.
void FindLoads(const std::vector<program::Step>& steps, std::map<std::string, std::string>& paths) {
  for (const program::Step& step : steps) {
    if (const auto* load = std::get_if<program::LoadStep>(&step.action)) {
      paths.emplace(step.result, load->path);
    } else if (const auto* repeat = std::get_if<program::RepeatStep>(&step.action)) {
      FindLoads(repeat->body, paths);
    }
  }
}

// Where each function of the plan comes from: a module's path, or empty if it is built in.
StatusOr<std::map<std::string, std::string>> FindModules(const AnalyzeCommand& command,
                                                         const PlanFile& file) {
  std::map<std::string, std::string> loaded;
  // Of a file whose steps are wrong, the plan can be analyzed all the same.
  config::Problems ignored;
  LOCKSTEP_ASSIGN_OR_RETURN(const program::Program steps,
                            program::ReadProgramFile(command.file, ignored));
  FindLoads(steps.steps, loaded);
  std::map<std::string, std::string> paths;
  for (const std::string& function : file.program().functions()) {
    if (file.fragments.contains(function)) continue;
    const auto module = file.modules.find(function);
    const auto load = module == file.modules.end() ? loaded.end() : loaded.find(module->second);
    if (load != loaded.end()) {
      paths[function] = load->second;
    } else if (module == file.modules.end() && function.starts_with(plan_file::kBuiltinPrefix)) {
      paths[function] = "";
    } else if (!command.module.empty()) {
      paths[function] = command.module;
    } else {
      return UsageError("the plan calls ", function,
                        ", which is not built in; name the library that has it: --module PATH");
    }
  }
  return paths;
}

StatusOr<std::map<std::string, DRef>> GetFunctions(
    Session& session, const std::map<std::string, std::string>& paths) {
  std::map<std::string, DRef> modules;
  std::map<std::string, DRef> functions;
  for (const auto& [function, path] : paths) {
    if (path.empty()) {
      LOCKSTEP_ASSIGN_OR_RETURN(functions[function], session.GetFunction(function));
      continue;
    }
    DRef& module = modules[path];
    if (module.IsNull()) {
      LOCKSTEP_ASSIGN_OR_RETURN(module, session.LoadModule(path));
    }
    LOCKSTEP_ASSIGN_OR_RETURN(functions[function], session.GetFunction(module, function));
  }
  // Functions that there are not are told here, and not by the plan.
  LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
  return functions;
}

// Zeros in that layout.
StatusOr<DRef> PlaceZeros(Session& session, const plan::ProgramValue& input) {
  const plan::Layout& layout = input.layout;
  const int64_t bytes = layout.shape().NumElements() * static_cast<int64_t>(SizeOf(layout.dtype()));
  if (bytes > kMostInputBytes) {
    return ResourceExhausted("input \"", input.name, "\" has ",
                             RoundedSize(static_cast<uint64_t>(bytes)), ", and at most ",
                             RoundedSize(kMostInputBytes), " are filled with zeros");
  }
  HostTensor zeros{layout.dtype(), layout.shape(), std::string(static_cast<size_t>(bytes), '\0')};
  // Partial values of zero are zero, whatever combines them.
  std::vector<plan::Placement> placements = layout.placements();
  for (plan::Placement& placement : placements) {
    if (placement.is_partial()) placement = plan::Placement::Replicate();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Layout whole, layout.With(std::move(placements)));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef ref, session.Place(zeros, whole));
  LOCKSTEP_RETURN_IF_ERROR(session.DeclareLayout(ref, layout));
  return ref;
}

// Ranks of one host share a node.
plan::Topology TopologyOf(const Session& session) {
  std::map<std::string, int> hosts;
  std::vector<int> nodes;
  for (const WorkerInfo& worker : session.workers()) {
    nodes.push_back(hosts.emplace(worker.host, static_cast<int>(hosts.size())).first->second);
  }
  return plan::Topology(std::move(nodes));
}

StatusOr<uint32_t> EventsFor(const PlanFile& file, int times) {
  size_t most = 0;
  for (const Rank rank : file.program().Ranks()) {
    most = std::max(most, file.StepsOf(rank).steps.size());
  }
  // The command itself, and waiting for it.
  const size_t each = most + 2;
  const size_t spare = 64;
  if (each * static_cast<size_t>(times) + spare > kMostEvents) {
    return UsageError("a rank has ", most, " steps, and ", kMostEvents,
                      " events are recorded at most: --times ", (kMostEvents - spare) / each);
  }
  return static_cast<uint32_t>(each * static_cast<size_t>(times) + spare);
}

StatusOr<std::map<Rank, std::vector<plan_file::MeasuredStep>>> StepsOf(const Trace& trace,
                                                                       SessionId session) {
  std::map<Rank, std::vector<plan_file::MeasuredStep>> measured;
  for (const TraceProcess& process : trace.processes) {
    if (process.role != TraceProcess::Role::kWorker) continue;
    if (!process.missing.empty()) {
      return Unavailable("what ", process.Name(), " has recorded is missing: ", process.missing);
    }
    for (const TraceThread& thread : process.threads) {
      for (const trace::Event& event : thread.events) {
        if (event.step == 0 || event.session != session.value) continue;
        measured[process.rank].push_back(
            {event.command, size_t{event.step} - 1, event.begin, event.end, event.name});
      }
    }
  }
  return measured;
}

StatusOr<plan_file::PlanAnalysis> Measure(Session& session, const AnalyzeCommand& command,
                                          const PlanFile& file,
                                          const std::map<std::string, std::string>& modules) {
  const int times = command.times.value_or(kTimes);
  PlanRegisters registers;
  LOCKSTEP_ASSIGN_OR_RETURN(registers.functions, GetFunctions(session, modules));
  for (const auto& [name, path] : file.fragments) {
    LOCKSTEP_ASSIGN_OR_RETURN(const fragment::Fragment fragment, ReadFragmentFile(path));
    LOCKSTEP_ASSIGN_OR_RETURN(registers.fragments[name], session.Compile(fragment));
  }
  for (const plan::ValueId id : file.program().inputs()) {
    const plan::ProgramValue& input = file.program().value(id);
    LOCKSTEP_ASSIGN_OR_RETURN(registers.inputs[input.name], PlaceZeros(session, input));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(BoundPlan plan, session.Bind(*file.written, registers));
  // On GPUs, too: a graph has no steps that could be seen.
  const ExecuteOptions each_step{.step_by_step = true};
  for (int i = 0; i < kWarmUp; ++i) LOCKSTEP_RETURN_IF_ERROR(plan.Execute(each_step));
  LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
  TraceOptions options;
  LOCKSTEP_ASSIGN_OR_RETURN(options.events, EventsFor(file, times));
  LOCKSTEP_RETURN_IF_ERROR(session.StartTrace(options));
  for (int i = 0; i < times; ++i) LOCKSTEP_RETURN_IF_ERROR(plan.Execute(each_step));
  LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
  LOCKSTEP_ASSIGN_OR_RETURN(const Trace trace, session.StopTrace());
  LOCKSTEP_ASSIGN_OR_RETURN(const auto measured, StepsOf(trace, session.id()));
  return plan_file::Analyze(file, measured);
}

Status Analyze(AnalyzeCommand command) {
  StatusOr<PlanFile> read = plan_file::ReadPlanFile(command.file);
  if (!read.ok()) return WithExitCode(read.status(), ExitCode::kUsage);
  PlanFile file = *std::move(read);
  // How long one step after the other takes; the workers may do better.
  file.lanes_overlap = false;
  const std::vector<Rank> ranks = file.program().Ranks();
  if (command.rank.has_value() && !std::binary_search(ranks.begin(), ranks.end(), *command.rank)) {
    return UsageError("rank ", *command.rank, " has no part in the plan; it has ",
                      ListRanks(ranks));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto modules, FindModules(command, file));
  // An embedded cluster has as many workers as the plan needs.
  if (command.target.embedded && !command.target.workers.has_value() && !ranks.empty()) {
    command.target.workers = ranks.back() + 1;
  }
  if (command.target.embedded && command.target.workers.has_value()) {
    LOCKSTEP_RETURN_IF_ERROR(
        WithExitCode(plan_file::CheckWorkers(file, *command.target.workers), ExitCode::kUsage));
  }
  SessionOptions options;
  options.name = "lockstep plan analyze";
  options.on_output = WorkerOutputPrinter(command.worker_output, command.format);
  std::unique_ptr<SessionInterrupt> interrupt;
  if (!command.target.embedded) {
    LOCKSTEP_ASSIGN_OR_RETURN(interrupt, SessionInterrupt::Make());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(OpenSession open, Open(command.target, std::move(options)));
  Session& session = *open.session;
  LOCKSTEP_RETURN_IF_ERROR(
      WithExitCode(plan_file::CheckWorkers(file, session.num_workers()), ExitCode::kUsage));
  if (interrupt != nullptr) {
    interrupt->Protect([controller = *open.controller, id = session.id()] {
      return EndInterruptedSession(controller, id);
    });
  }
  // The cluster's nodes, not those of the file.
  file.topology = TopologyOf(session);
  LOCKSTEP_ASSIGN_OR_RETURN(
      file.lowered, plan::LowerProgram(file.lowered.program, file.topology, plan::CostModel()));
  const StatusOr<plan_file::PlanAnalysis> analysis = Measure(session, command, file, modules);
  if (!analysis.ok()) {
    return interrupt == nullptr ? analysis.status() : interrupt->Explain(analysis.status());
  }
  if (command.format == OutputFormat::kJson) {
    std::cout << ToText(plan_file::AnalysisToJson(file, *analysis)) << '\n';
  } else {
    plan_file::PrintAnalysis(std::cout, text::Style::For(STDOUT_FILENO), file, *analysis,
                             command.rank.value_or(analysis->slowest_rank));
  }
  return session.Close();
}

}  // namespace

void AddPlanAnalyze(Command plan) {
  Command command =
      plan.AddCommand("analyze",
                      "Run a plan on a cluster: what each step took beside what it was "
                      "predicted to take");
  auto options = std::make_shared<AnalyzeCommand>();
  command.Add("FILE", options->file, "a YAML file with a section \"plan\"").Required();
  command
      .Add("-m,--module", options->module,
           "library with the functions that are not built in,\nand that no step of the file loads")
      .Placeholder("PATH");
  command
      .Add("--times", options->times,
           "how often it is executed, after 3 times to warm up; 20 if not given")
      .Between(1, 100'000)
      .Placeholder("N");
  command.Add("--rank", options->rank, "this rank's steps, instead of those of the slowest")
      .Between(0, 1'000'000)
      .Placeholder("N");
  AddSessionOptions(command, options->target);
  AddOutputOption(command, options->format);
  AddWorkerOutputOption(command, options->worker_output);
  command.Examples(
      "  lockstep plan analyze examples/plans/gradients.yaml --embedded\n"
      "  lockstep plan analyze examples/plans/gradients.yaml --embedded --times 100 --rank 3\n\n"
      "The inputs are zeros. docs/plans.md says how the times are measured.\n");
  command.Do([options] { return Analyze(*options); });
}

}  // namespace lockstep::cli
