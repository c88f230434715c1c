#include <unistd.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/command_line.h"
#include "tools/cli/commands/commands.h"
#include "tools/cli/plan/drawing.h"
#include "tools/cli/plan/explain.h"
#include "tools/cli/plan/plan_file.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

struct ExplainCommand {
  std::string file;
  std::optional<int> rank;
  bool simulate = false;
  bool text = false;
  std::string svg;
};

Status Explain(const ExplainCommand& command) {
  const StatusOr<plan_file::PlanFile> file = plan_file::ReadPlanFile(command.file);
  if (!file.ok()) return WithExitCode(file.status(), ExitCode::kUsage);
  if (command.text) {
    plan_file::PrintProgram(std::cout, *file);
    return OkStatus();
  }
  const text::Style style = text::Style::For(STDOUT_FILENO);
  LOCKSTEP_RETURN_IF_ERROR(plan_file::ExplainPlan(std::cout, style, *file));
  if (command.rank.has_value()) {
    std::cout << '\n';
    const Status status = plan_file::ExplainRank(std::cout, style, *file, *command.rank);
    if (!status.ok()) return WithExitCode(status, ExitCode::kUsage);
  }
  if (!command.svg.empty()) {
    const std::vector<Rank> ranks = file->program().Ranks();
    const Rank rank = command.rank.value_or(ranks.empty() ? 0 : ranks.front());
    const StatusOr<std::string> picture = plan_file::DrawPlan(*file, rank);
    if (!picture.ok()) return WithExitCode(picture.status(), ExitCode::kUsage);
    std::ofstream out(command.svg);
    out << *picture;
    out.close();
    if (!out) return Internal("cannot write ", command.svg);
  }
  if (!command.simulate) return OkStatus();
  std::cout << '\n';
  return plan_file::SimulatePlan(std::cout, *file);
}

}  // namespace

void AddPlan(Command lockstep) {
  Command command = lockstep.AddCommand("plan", "Look at plans: programs that are lowered once");
  command.RequireCommand();
  command.Examples("  lockstep plan explain examples/plans/layers.yaml --rank 0\n");
  Command explain = command.AddCommand(
      "explain", "What a program is lowered to: what moves, each rank's steps, and its memory");
  auto options = std::make_shared<ExplainCommand>();
  explain.Add("FILE", options->file, "a YAML file with a section \"plan\"").Required();
  explain.Add("--rank", options->rank, "this rank's steps and buffers, too")
      .Between(0, 1'000'000)
      .Placeholder("N");
  explain.AddFlag("--simulate", options->simulate,
                  "runs all ranks' steps in this process, without what functions do");
  explain.AddFlag("--text", options->text,
                  "prints the program and what it is lowered to, one line each, and nothing else");
  explain
      .Add("--svg", options->svg,
           "draws each rank's steps over time, as predicted, and the memory of rank N (or the "
           "first)")
      .Placeholder("FILE");
  explain.Examples(
      "  lockstep plan explain examples/plans/layers.yaml\n"
      "  lockstep plan explain examples/plans/layers.yaml --rank 3 --simulate\n\n"
      "No cluster is needed. docs/plans.md describes the file, and how to read what is printed.\n");
  explain.Do([options] { return Explain(*options); });
}

}  // namespace lockstep::cli
