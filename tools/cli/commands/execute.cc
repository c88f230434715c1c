// `lockstep execute`: a fragment on the data of files.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/files.h"
#include "runtime/base/quantity.h"
#include "runtime/base/rank_text.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/fragment/comparison.h"
#include "tools/cli/fragment/execution.h"
#include "tools/cli/fragment/explanation.h"
#include "tools/cli/fragment/fragment_file.h"
#include "tools/cli/fragment/words.h"
#include "tools/cli/npy.h"
#include "tools/cli/session_interrupt.h"
#include "tools/cli/target.h"
#include "tools/cli/value_text.h"
#include "tools/text/format.h"
#include "tools/text/table.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

struct ExecuteCommand {
  SessionTarget target;
  std::string file;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> references;
  Tolerance tolerance;
  std::optional<int> times;
  bool explain = false;
  OutputFormat format = OutputFormat::kTable;
  WorkerOutputChoice worker_output = WorkerOutputChoice::kForward;
};

// A file that one of the results is compared with.
struct Reference {
  std::string result;  // its name; empty: the one there is
  std::string file;
  HostTensor tensor;
};

struct Verdict {
  const ExecutedResult* result;
  const Reference* reference;
  Comparison comparison;
};

StatusOr<Reference> ReadReference(const std::string& text,
                                  const std::vector<GivenOutput>& outputs) {
  Reference reference{"", text, {}};
  const size_t equals = text.find('=');
  for (const GivenOutput& output : outputs) {
    if (text.substr(0, equals) != output.name || equals == std::string::npos) continue;
    reference = {output.name, text.substr(equals + 1), {}};
  }
  if (reference.result.empty() && equals != std::string::npos && !outputs.empty() &&
      !std::filesystem::exists(text)) {
    return InvalidArgument("--compare ", text, ": no --output is called ", text.substr(0, equals));
  }
  if (reference.result.empty() && outputs.size() > 1) {
    return InvalidArgument("--compare ", text,
                           ": there are several results; say which one: ", "--compare ",
                           outputs.front().name, "=", text);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(reference.tensor, ReadNpy(reference.file));
  return reference;
}

// What is written has to have a place, before anything is executed.
Status CheckFiles(const std::vector<GivenOutput>& outputs, bool is_split) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const GivenOutput& output = outputs[i];
    for (size_t j = 0; j < i; ++j) {
      if (outputs[j].name == output.name) {
        return InvalidArgument("two results are called ", output.name);
      }
    }
    if (output.file.empty()) continue;
    if (output.combine == fragment::Combine::kNone && is_split) {
      return InvalidArgument("each worker has ", output.name, " for itself, which is no one file; ",
                             "say how it is put together: ", output.name, "=", output.file,
                             ":rows (or columns, add, mul, min, max)");
    }
    const std::filesystem::path directory = std::filesystem::absolute(output.file).parent_path();
    std::error_code error;
    if (!std::filesystem::is_directory(directory, error)) {
      return NotFound("there is no directory ", directory.string(), " to write ", output.file,
                      " into");
    }
  }
  return OkStatus();
}

struct Prepared {
  ExecuteRequest request;
  std::vector<Reference> references;
};

StatusOr<Prepared> Prepare(const ExecuteCommand& command) {
  LOCKSTEP_ASSIGN_OR_RETURN(fragment::Fragment fragment, ReadFragmentFile(command.file));
  Prepared prepared{{std::move(fragment), {}, {}, command.times.value_or(1)}, {}};
  bool is_split = false;
  for (const std::string& text : command.inputs) {
    LOCKSTEP_ASSIGN_OR_RETURN(GivenInput input, ParseInput(text));
    is_split = is_split || input.split != fragment::Split::kNone;
    prepared.request.inputs.push_back(std::move(input));
  }
  for (const std::string& text : command.outputs) {
    LOCKSTEP_ASSIGN_OR_RETURN(GivenOutput output, ParseOutput(text));
    prepared.request.outputs.push_back(std::move(output));
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckFiles(prepared.request.outputs, is_split));
  for (const std::string& text : command.references) {
    LOCKSTEP_ASSIGN_OR_RETURN(Reference reference, ReadReference(text, prepared.request.outputs));
    prepared.references.push_back(std::move(reference));
  }
  return prepared;
}

StatusOr<std::vector<Verdict>> CompareAll(const Execution& execution,
                                          const std::vector<Reference>& references,
                                          const Tolerance& tolerance) {
  std::vector<Verdict> verdicts;
  for (const Reference& reference : references) {
    const auto result = std::find_if(
        execution.results.begin(), execution.results.end(), [&](const ExecutedResult& one) {
          return reference.result.empty() || one.output.name == reference.result;
        });
    if (result == execution.results.end()) continue;
    const std::string what = result->output.name + " and " + reference.file;
    if (reference.result.empty() && execution.results.size() > 1) {
      return UsageError("the fragment has ", execution.results.size(),
                        " results; name them by --output, and the one to compare by ",
                        "--compare NAME=", reference.file);
    }
    if (result->whole() == nullptr) {
      return UsageError(what,
                        ": each worker has its own, which is compared with nothing; say how "
                        "it is put together: --output ",
                        result->output.name, ":rows");
    }
    StatusOr<Comparison> comparison = Compare(*result->whole(), reference.tensor, tolerance);
    if (!comparison.ok()) return Annotate(comparison.status(), what);
    verdicts.push_back({&*result, &reference, *comparison});
  }
  return verdicts;
}

Status WriteFiles(const Execution& execution) {
  for (const ExecutedResult& result : execution.results) {
    if (result.output.file.empty()) continue;
    if (result.whole() == nullptr) {
      return FailedPrecondition("each worker has its own ", result.output.name,
                                ", which is no one file: ", result.output.file);
    }
    LOCKSTEP_RETURN_IF_ERROR(WriteNpy(result.output.file, *result.whole()));
  }
  return OkStatus();
}

std::string DurationText(Execution::Microseconds duration) {
  const int64_t micros = duration.count();
  if (micros < 1000) return std::to_string(micros) + " us";
  if (micros < 10'000) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f ms", static_cast<double>(micros) / 1000);
    return text;
  }
  return RoundedDuration(std::chrono::round<std::chrono::milliseconds>(duration));
}

void PrintResults(const Execution& execution, const text::Style& style) {
  text::Table table({{"RESULT"}, {"RANKS"}, {"VALUE"}});
  for (const ExecutedResult& result : execution.results) {
    const std::string& name = result.output.name;
    if (const HostTensor* whole = result.whole()) {
      std::string text = Render(*whole);
      if (!result.output.file.empty()) {
        // Without its elements, which are in the file.
        text = Render(*whole, 0);
        text = text.substr(0, text.find(" {")) + " in " + result.output.file;
      }
      table.AddRow({name, "", text});
      continue;
    }
    const auto& values = std::get<std::vector<RankValue>>(result.value);
    for (const SharedValue& group : GroupEqual(values)) {
      table.AddRow({name, RankRanges(group.ranks), Render(*group.value)});
    }
  }
  table.Print(std::cout, style);
}

void PrintVerdicts(const std::vector<Verdict>& verdicts, const Tolerance& tolerance,
                   const text::Style& style) {
  for (const Verdict& verdict : verdicts) {
    const bool agrees = verdict.comparison.Agrees();
    std::cout << text::Printable(verdict.result->output.name) << ' '
              << style.Paint(agrees ? text::Tint::kGreen : text::Tint::kRed,
                             agrees ? "agrees with" : "differs from")
              << ' ' << text::Printable(verdict.reference->file) << ": "
              << Describe(verdict.comparison, *verdict.result->whole(), verdict.reference->tensor)
              << " (rtol " << tolerance.relative << ", atol " << tolerance.absolute << ")\n";
  }
}

void PrintSummary(const Execution& execution, int workers) {
  std::vector<Execution::Microseconds> times = execution.executing;
  std::sort(times.begin(), times.end());
  std::cout << text::Printable(execution.call.signature().function) << " on "
            << text::Plural(static_cast<uint64_t>(workers), "worker") << ": compiled in "
            << DurationText(execution.compiling) << ", placed in "
            << DurationText(execution.placing) << ", executed ";
  if (times.size() == 1) {
    std::cout << "in " << DurationText(times.front());
  } else {
    std::cout << text::FormatCount(times.size()) << " times in " << DurationText(times.front())
              << " to " << DurationText(times.back()) << ", the median "
              << DurationText(times[times.size() / 2]);
  }
  std::cout << ", collected in " << DurationText(execution.collecting) << '\n';
}

Json ToJson(const Execution& execution, const std::vector<Verdict>& verdicts, int workers,
            bool explain) {
  const auto micros = [](Execution::Microseconds time) { return time.count(); };
  Json results = Json::array();
  for (const ExecutedResult& result : execution.results) {
    Json entry{{"name", result.output.name}, {"combine", Name(result.output.combine)}};
    if (!result.output.file.empty()) {
      entry["file"] = result.output.file;
    } else if (const HostTensor* whole = result.whole()) {
      entry["value"] = cli::ToJson(Value(*whole));
    } else {
      entry["ranks"] = cli::ToJson(std::get<std::vector<RankValue>>(result.value));
    }
    results.push_back(std::move(entry));
  }
  Json comparisons = Json::array();
  for (const Verdict& verdict : verdicts) {
    const Comparison& one = verdict.comparison;
    comparisons.push_back({{"name", verdict.result->output.name},
                           {"reference", verdict.reference->file},
                           {"agrees", one.Agrees()},
                           {"elements", one.elements},
                           {"different", one.different},
                           {"largest_difference", one.largest},
                           {"largest_at", one.largest_at}});
  }
  Json executing = Json::array();
  for (const Execution::Microseconds time : execution.executing) executing.push_back(micros(time));
  Json document{{"function", execution.call.signature().function},
                {"workers", workers},
                {"microseconds",
                 {{"compiling", micros(execution.compiling)},
                  {"placing", micros(execution.placing)},
                  {"executing", std::move(executing)},
                  {"collecting", micros(execution.collecting)}}},
                {"results", std::move(results)}};
  if (!verdicts.empty()) document["comparisons"] = std::move(comparisons);
  if (explain) document["explanation"] = ExplanationToJson(execution);
  return document;
}

Status RunExecute(const ExecuteCommand& command) {
  StatusOr<Prepared> prepared = Prepare(command);
  if (!prepared.ok()) return WithExitCode(prepared.status(), ExitCode::kUsage);
  SessionOptions options;
  options.name = "lockstep execute " + prepared->request.fragment.name();
  options.on_output = WorkerOutputPrinter(command.worker_output, command.format);
  std::unique_ptr<SessionInterrupt> interrupt;
  if (!command.target.embedded) {
    LOCKSTEP_ASSIGN_OR_RETURN(interrupt, SessionInterrupt::Make());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(OpenSession open, Open(command.target, std::move(options)));
  Session& session = *open.session;
  if (interrupt != nullptr) {
    interrupt->Protect([controller = *open.controller, id = session.id()] {
      return EndInterruptedSession(controller, id);
    });
  }
  const StatusOr<Execution> execution = Execute(session, std::move(prepared->request));
  if (!execution.ok()) {
    return interrupt == nullptr ? execution.status() : interrupt->Explain(execution.status());
  }
  LOCKSTEP_RETURN_IF_ERROR(WriteFiles(*execution));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Verdict> verdicts,
                            CompareAll(*execution, prepared->references, command.tolerance));
  if (command.format == OutputFormat::kJson) {
    std::cout << ToText(ToJson(*execution, verdicts, session.num_workers(), command.explain))
              << '\n';
  } else {
    const text::Style style = text::Style::For(STDOUT_FILENO);
    if (command.explain) Explain(std::cout, style, *execution);
    PrintResults(*execution, style);
    PrintVerdicts(verdicts, command.tolerance, style);
    PrintSummary(*execution, session.num_workers());
  }
  LOCKSTEP_RETURN_IF_ERROR(session.Close());
  const auto different = static_cast<size_t>(
      std::count_if(verdicts.begin(), verdicts.end(),
                    [](const Verdict& verdict) { return !verdict.comparison.Agrees(); }));
  if (different == 0) return OkStatus();
  return FailedPrecondition(
      text::Plural(different, "result"),
      different == 1 ? " differs from its reference" : " differ from their references");
}

}  // namespace

void AddExecute(Command lockstep) {
  Command command = lockstep.AddCommand("execute", "Compile a fragment, execute it on all workers");
  auto options = std::make_shared<ExecuteCommand>();
  command.Add("FRAGMENT", options->file, "a function in MLIR: FILE.mlir, or bytecode, FILE.mlirbc")
      .Required()
      .Placeholder("");
  command
      .Add("-i,--input", options->inputs,
           "an argument, by its name or in their order, and how it is split:\n"
           "x=data.npy:rows  (columns, none)  rate=0.5  w=f64[2]=1,2\n"
           "once for each argument")
      .Placeholder("[NAME=]VALUE[:SPLIT]")
      .Repeatable();
  command
      .Add("-o,--output", options->outputs,
           "a result, in their order, and how the workers' are combined:\n"
           "y:rows  (columns, add, mul, min, max, none)  y=out.npy:rows\n"
           "y[8,2]:rows where the fragment leaves its shape open; without\n"
           "any of these all results are shown as each worker has them")
      .Placeholder("NAME[=FILE][:COMBINE]")
      .Repeatable();
  command
      .Add("--compare", options->references,
           "compare the result with this array, and exit with 1 if it\n"
           "differs; NAME= says which of several results")
      .Placeholder("[NAME=]FILE.npy")
      .Repeatable();
  command.Add("--rtol", options->tolerance.relative, "what is left, of the reference's magnitude")
      .Between(0.0, 1e300)
      .Placeholder("R")
      .ShowDefault();
  command.Add("--atol", options->tolerance.absolute, "... and in any case")
      .Between(0.0, 1e300)
      .Placeholder("A")
      .ShowDefault();
  command.Add("--repeat", options->times, "execute it so often, and show how long that takes")
      .Between(1, 1'000'000)
      .Placeholder("N");
  command.AddFlag("--explain", options->explain,
                  "tell its signature, what each rank gets, layouts, and what moves");
  command
      .Add(
          "--format",
          [options](const std::string& name) {
            options->format = name == "json" ? OutputFormat::kJson : OutputFormat::kTable;
          },
          "table for people (default), json for scripts")
      .OneOf({"table", "json"})
      .Placeholder("FORMAT");
  AddSessionOptions(command, options->target);
  AddWorkerOutputOption(command, options->worker_output);
  command.Examples(
      "  lockstep execute power.mlir --input x=data.npy:rows --input n=7 --output y:rows\n"
      "  lockstep execute power.mlir -i n=7 -i x=f64[4]=1,2,3,4:rows -o y:rows --embedded\n"
      "  lockstep execute power.mlir -i n=7 -i x=data.npy:rows -o y=out.npy:rows --explain\n\n"
      "docs/fragments.md tells how fragments are written.\n");
  command.Do([options] { return RunExecute(*options); });
}

}  // namespace lockstep::cli
