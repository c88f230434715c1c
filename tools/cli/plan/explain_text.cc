#include "tools/cli/plan/explain_text.h"

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/base/quantity.h"
#include "runtime/base/rank_text.h"
#include "runtime/plan/program_text.h"
#include "tools/cli/plan/explain.h"
#include "tools/cli/plan/graph_on_gpus.h"
#include "tools/text/format.h"
#include "tools/text/table.h"

namespace lockstep::cli::plan_file {
namespace {

using plan::StepBuffer;
using text::Table;

std::string Bytes(double bytes) {
  return bytes <= 0 ? "0" : RoundedSize(static_cast<uint64_t>(bytes));
}

void PrintReshards(std::ostream& out, const text::Style& style, const PlanFile& file) {
  const std::vector<ReshardFacts> reshards = FindReshards(file);
  if (reshards.empty()) return;
  Table table({{"LINE"},
               {"RESHARD"},
               {"AS"},
               {"BUSIEST RANK", Table::Align::kRight},
               {"BOUND", Table::Align::kRight},
               {"BUSIEST NODE", Table::Align::kRight},
               {"BOUND", Table::Align::kRight},
               {"PREDICTED", Table::Align::kRight}});
  for (const ReshardFacts& one : reshards) {
    table.AddRow({one.where, one.from + " to " + one.to, one.as, Bytes(one.rank_bytes),
                  Bytes(one.rank_bound), Bytes(one.node_bytes), Bytes(one.node_bound),
                  MicrosText(one.predicted_us)});
  }
  out << '\n'
      << style.Paint(text::Tint::kBold, "What moves, in or out of one rank or node") << '\n';
  table.Print(out, style, 2);
}

void PrintMemory(std::ostream& out, const text::Style& style, const PlanFile& file) {
  Table table({{"RANKS"},
               {"STEPS", Table::Align::kRight},
               {"PEAK", Table::Align::kRight},
               {"LIVE AT ONCE", Table::Align::kRight},
               {"ALL BUFFERS", Table::Align::kRight}});
  for (const MemoryFacts& row : FindMemory(file)) {
    table.AddRow({RankRanges(row.ranks), std::to_string(row.steps),
                  Bytes(static_cast<double>(row.peak)),
                  Bytes(static_cast<double>(row.live_at_once)),
                  Bytes(static_cast<double>(row.all_buffers))});
  }
  out << '\n' << style.Paint(text::Tint::kBold, "Memory of the plan's own, of each rank") << '\n';
  table.Print(out, style, 2);
}

}  // namespace

std::string MicrosText(double micros) {
  char text[32];
  std::snprintf(text, sizeof text, micros < 10 ? "%.1f us" : "%.0f us", micros);
  return text;
}

Status ExplainPlan(std::ostream& out, const text::Style& style, const PlanFile& file) {
  out << text::Plural(file.written->ops().size(), "operation") << ", "
      << text::Plural(file.written->values().size(), "value") << ", "
      << text::Plural(file.program().Ranks().size(), "rank") << " on "
      << text::Plural(CountNodes(file), "node") << "; reshards are predicted to take "
      << MicrosText(file.lowered.cost_us) << '\n';
  if (!file.lowered.notes.empty()) {
    out << '\n' << style.Paint(text::Tint::kBold, "What the passes did") << '\n';
    for (const std::string& note : file.lowered.notes) out << "  " << text::Printable(note) << '\n';
  }
  out << "on GPUs: " << text::Printable(Describe(FindGraphOnGpus(file.program()))) << '\n';
  PrintReshards(out, style, file);
  PrintMemory(out, style, file);
  return OkStatus();
}

Status ExplainRank(std::ostream& out, const text::Style& style, const PlanFile& file, Rank rank) {
  LOCKSTEP_ASSIGN_OR_RETURN(const RankFacts facts, FindRank(file, rank));
  out << style.Paint(text::Tint::kBold, "Steps of rank " + std::to_string(rank)) << '\n';
  Table table({{"STEP", Table::Align::kRight},
               {"LANE", Table::Align::kRight},
               {"AFTER", Table::Align::kRight},
               {"KIND"},
               {"LINE"},
               {"WHAT"},
               {"BYTES", Table::Align::kRight}});
  for (size_t i = 0; i < facts.steps.size(); ++i) {
    const StepFacts& step = facts.steps[i];
    // Steps that are done one after the other have no lanes.
    const bool waits = file.lanes_overlap && step.waits_for >= 0;
    table.AddRow({std::to_string(i), file.lanes_overlap ? std::to_string(step.lane) : "",
                  waits ? std::to_string(step.waits_for) : "", step.kind, step.where, step.what,
                  step.bytes > 0 ? Bytes(step.bytes) : ""});
  }
  table.Print(out, style, 2);
  out << '\n' << style.Paint(text::Tint::kBold, "Buffers of rank " + std::to_string(rank)) << '\n';
  Table buffers({{"BUFFER"},
                 {"TILE"},
                 {"BYTES", Table::Align::kRight},
                 {"AT", Table::Align::kRight},
                 {"LIES IN"}});
  for (const BufferFacts& one : facts.buffers) {
    const StepBuffer& buffer = one.buffer;
    const bool is_in_arena = buffer.home == StepBuffer::Home::kArena;
    buffers.AddRow(
        {one.name, std::string(Name(buffer.dtype)) + buffer.extents.ToString(),
         Bytes(static_cast<double>(buffer.size_bytes())),
         is_in_arena ? text::FormatCount(static_cast<uint64_t>(buffer.arena_offset)) : "",
         one.lies_in});
  }
  buffers.Print(out, style, 2);
  return OkStatus();
}

void PrintProgram(std::ostream& out, const PlanFile& file) {
  std::istringstream lines(plan::ToText(*file.written, file.value_names) + "\nlowered to:\n" +
                           plan::ToText(file.lowered, file.value_names));
  for (std::string line; std::getline(lines, line);) out << text::Printable(line) << '\n';
}

Status SimulatePlan(std::ostream& out, const PlanFile& file) {
  LOCKSTEP_ASSIGN_OR_RETURN(const SimulationFacts facts, RunSimulation(file));
  out << "simulated " << text::Plural(facts.ranks, "rank") << ", "
      << text::Plural(facts.steps, "step") << ", in " << RoundedDuration(facts.took)
      << ": all come to their end\n";
  return OkStatus();
}

}  // namespace lockstep::cli::plan_file
