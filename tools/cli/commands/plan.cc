#include <unistd.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/command_line.h"
#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/plan/drawing.h"
#include "tools/cli/plan/explain.h"
#include "tools/cli/plan/explain_json.h"
#include "tools/cli/plan/explain_text.h"
#include "tools/cli/plan/plan_file.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

struct ExplainCommand {
  std::string file;
  std::optional<int> rank;
  bool simulate = false;
  bool text = false;
  std::optional<int> lanes;
  std::string svg;
  OutputFormat format = OutputFormat::kTable;
};

Status PrintText(const ExplainCommand& command, const plan_file::PlanFile& file,
                 const std::optional<plan_file::Drawing>& drawing) {
  const text::Style style = text::Style::For(STDOUT_FILENO);
  LOCKSTEP_RETURN_IF_ERROR(plan_file::ExplainPlan(std::cout, style, file));
  if (command.rank.has_value()) {
    std::cout << '\n';
    LOCKSTEP_RETURN_IF_ERROR(plan_file::ExplainRank(std::cout, style, file, *command.rank));
  }
  if (drawing.has_value()) {
    std::cout << "\ndrew " << text::Printable(command.svg) << ": " << plan_file::Describe(*drawing)
              << '\n';
  }
  if (!command.simulate) return OkStatus();
  std::cout << '\n';
  return plan_file::SimulatePlan(std::cout, file);
}

// One object, with all that was asked for.
Status PrintJson(const ExplainCommand& command, const plan_file::PlanFile& file,
                 const std::optional<plan_file::Drawing>& drawing) {
  Json document = {{"file", command.file}};
  document.update(plan_file::PlanToJson(file));
  if (command.rank.has_value()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const plan_file::RankFacts rank,
                              plan_file::FindRank(file, *command.rank));
    document["rank"] = plan_file::RankToJson(*command.rank, rank);
  }
  if (drawing.has_value()) {
    document["picture"] = {
        {"file", command.svg}, {"ranks", drawing->ranks}, {"memory_of", drawing->memory_of}};
  }
  if (command.simulate) {
    LOCKSTEP_ASSIGN_OR_RETURN(const plan_file::SimulationFacts simulation,
                              plan_file::RunSimulation(file));
    document["simulation"] = plan_file::SimulationToJson(simulation);
  }
  std::cout << ToText(document) << '\n';
  return OkStatus();
}

StatusOr<plan_file::Drawing> Draw(const std::string& path, const plan_file::PlanFile& file,
                                  Rank rank) {
  StatusOr<plan_file::Drawing> drawing = plan_file::DrawPlan(file, rank);
  if (!drawing.ok()) return WithExitCode(drawing.status(), ExitCode::kUsage);
  std::ofstream out(path);
  out << drawing->svg;
  out.close();
  if (!out) return Internal("cannot write ", path);
  return drawing;
}

Status Explain(const ExplainCommand& command) {
  StatusOr<plan_file::PlanFile> file = plan_file::ReadPlanFile(command.file);
  if (!file.ok()) return WithExitCode(file.status(), ExitCode::kUsage);
  file->lanes_overlap = command.lanes != 1;
  if (command.text) {
    if (command.format == OutputFormat::kJson) {
      return UsageError("--text prints text: leave out --output json, or --text");
    }
    plan_file::PrintProgram(std::cout, *file);
    return OkStatus();
  }
  // Before anything is printed.
  const std::vector<Rank> ranks = file->program().Ranks();
  if (command.rank.has_value()) {
    const Status status = plan_file::FindRank(*file, *command.rank).status();
    if (!status.ok()) return WithExitCode(status, ExitCode::kUsage);
  }
  std::optional<plan_file::Drawing> drawing;
  if (!command.svg.empty()) {
    const Rank rank = command.rank.value_or(ranks.empty() ? 0 : ranks.front());
    LOCKSTEP_ASSIGN_OR_RETURN(drawing, Draw(command.svg, *file, rank));
  }
  return command.format == OutputFormat::kJson ? PrintJson(command, *file, drawing)
                                               : PrintText(command, *file, drawing);
}

}  // namespace

void AddPlan(Command lockstep) {
  Command command = lockstep.AddCommand("plan", "Look at plans: programs that are lowered once");
  command.RequireCommand();
  command.Examples(
      "  lockstep plan explain examples/plans/layers.yaml --rank 0\n"
      "  lockstep plan analyze examples/plans/gradients.yaml --embedded\n");
  Command explain = command.AddCommand(
      "explain", "What a program is lowered to: what moves, each rank's steps, and its memory");
  auto options = std::make_shared<ExplainCommand>();
  explain.Add("FILE", options->file, "a YAML file with a section \"plan\"").Required();
  const auto rank = explain.Add("--rank", options->rank, "this rank's steps and buffers, too")
                        .Between(0, 1'000'000)
                        .Placeholder("N");
  const auto simulate =
      explain.AddFlag("--simulate", options->simulate,
                      "runs all ranks' steps in this process, without what functions do");
  explain
      .Add("--lanes", options->lanes,
           "1: for workers that execute one step after the other,\n"
           "instead of two lanes")
      .Between(1, 2)
      .Placeholder("N");
  const auto svg = explain
                       .Add("--svg", options->svg,
                            "draws ranks' steps over time, as predicted, and the\n"
                            "memory of rank N (or the first); of more than 64\n"
                            "ranks, 64 around that one")
                       .Placeholder("FILE");
  explain
      .AddFlag("--text", options->text,
               "prints the program and what it is lowered to, one line\n"
               "each, and nothing else")
      .Excludes(rank)
      .Excludes(simulate)
      .Excludes(svg);
  AddOutputOption(explain, options->format);
  explain.Examples(
      "  lockstep plan explain examples/plans/layers.yaml\n"
      "  lockstep plan explain examples/plans/layers.yaml --rank 3 --simulate\n"
      "  lockstep plan explain examples/plans/layers.yaml --output json | jq .reshards\n\n"
      "No cluster is needed. docs/plans.md describes the file, and how to read what is printed.\n");
  explain.Do([options] { return Explain(*options); });
  AddPlanAnalyze(command);
}

}  // namespace lockstep::cli
