#include "tools/cli/plan/explain_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/quantity.h"
#include "runtime/base/rank_text.h"
#include "runtime/plan/passes/program_text.h"
#include "tools/cli/plan/explain.h"
#include "tools/cli/plan/fragment_moves.h"
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
               {"RANK", Table::Align::kRight},
               {"BOUND", Table::Align::kRight},
               {"NODE", Table::Align::kRight},
               {"BOUND", Table::Align::kRight},
               {"PREDICTED", Table::Align::kRight}});
  // Nothing goes between the nodes of a plan that has one.
  const bool has_nodes = CountNodes(file) > 1;
  for (const ReshardFacts& one : reshards) {
    table.AddRow({one.where, one.from + " to " + one.to, one.as, Bytes(one.rank_bytes),
                  Bytes(one.rank_bound), has_nodes ? Bytes(one.node_bytes) : "",
                  has_nodes ? Bytes(one.node_bound) : "", MicrosText(one.predicted_us)});
  }
  out << '\n'
      << style.Paint(text::Tint::kBold,
                     "What moves, in or out of the busiest rank and node, and the least that can")
      << '\n';
  table.Print(out, style, 2);
}

// "x (rows)"; and what is sent of it, if anything is.
std::string TensorText(const FragmentTensorFacts& tensor) {
  std::string text = tensor.name + " (" + tensor.how + ")";
  if (tensor.sent_bytes > 0) text += ": " + Bytes(tensor.sent_bytes);
  return text;
}

void PrintFragments(std::ostream& out, const text::Style& style, const PlanFile& file) {
  const std::vector<FragmentFacts> fragments = FindFragments(file);
  if (fragments.empty()) return;
  Table table({{"LINE"}, {"FRAGMENT"}, {"INPUTS"}, {"RESULTS"}, {"SENT", Table::Align::kRight}});
  for (const FragmentFacts& one : fragments) {
    std::string inputs;
    std::string results;
    double sent = 0;
    for (const FragmentTensorFacts& tensor : one.tensors) {
      std::string& list = tensor.is_result ? results : inputs;
      list += (list.empty() ? "" : ", ") + TensorText(tensor);
      sent += tensor.sent_bytes;
    }
    table.AddRow({one.where, one.name, inputs, results, Bytes(sent)});
  }
  out << '\n'
      << style.Paint(text::Tint::kBold,
                     "What fragments are given and make, and what all ranks send of it in each "
                     "execution")
      << '\n';
  table.Print(out, style, 2);
}

void PrintMemory(std::ostream& out, const text::Style& style, const PlanFile& file) {
  Table table({{"RANKS"},
               {"STEPS", Table::Align::kRight},
               {"PEAK", Table::Align::kRight},
               {"LIVE AT ONCE", Table::Align::kRight},
               {"ALL BUFFERS", Table::Align::kRight}});
  const std::vector<MemoryFacts> rows = FindMemory(file);
  const auto bytes_of = [](const MemoryFacts& row) {
    return std::array<int64_t, 3>{row.peak, row.live_at_once, row.all_buffers};
  };
  const auto rounded = [](int64_t bytes) { return Bytes(static_cast<double>(bytes)); };
  // Where rows would look equal, columns in which they differ have all digits.
  std::array<bool, 3> is_exact = {false, false, false};
  std::map<std::string, std::array<int64_t, 3>> seen;  // by what it looks like
  for (const MemoryFacts& row : rows) {
    const std::array<int64_t, 3> bytes = bytes_of(row);
    std::string looks = std::to_string(row.steps);
    for (const int64_t one : bytes) looks += "," + rounded(one);
    const std::array<int64_t, 3>& first = seen.emplace(looks, bytes).first->second;
    for (size_t i = 0; i < bytes.size(); ++i) is_exact[i] = is_exact[i] || bytes[i] != first[i];
  }
  for (const MemoryFacts& row : rows) {
    std::vector<Table::Cell> cells = {RankRanges(row.ranks), std::to_string(row.steps)};
    const std::array<int64_t, 3> bytes = bytes_of(row);
    for (size_t i = 0; i < bytes.size(); ++i) {
      cells.emplace_back(is_exact[i] ? text::FormatCount(static_cast<uint64_t>(bytes[i])) + " B"
                                     : rounded(bytes[i]));
    }
    table.AddRow(std::move(cells));
  }
  out << '\n' << style.Paint(text::Tint::kBold, "Memory of the plan's own, of each rank") << '\n';
  table.Print(out, style, 2);
}

// Copies that follow each other, from one buffer to another: what is packed for an exchange, or
// unpacked, has a copy for each rank. Any other step is a run by itself.
struct StepRun {
  size_t end = 0;
  double bytes = 0;  // together
  double least = 0;
  double most = 0;
};

StepRun RunFrom(size_t first, const std::vector<StepFacts>& steps, bool lanes_overlap) {
  const StepFacts& step = steps[first];
  StepRun run{first + 1, step.bytes, step.bytes, step.bytes};
  for (; step.kind == "copy" && run.end < steps.size(); ++run.end) {
    const StepFacts& next = steps[run.end];
    const bool is_like = next.kind == step.kind && next.where == step.where &&
                         next.what == step.what && next.lane == step.lane &&
                         !(lanes_overlap && next.waits_for >= 0);
    if (!is_like) break;
    run.bytes += next.bytes;
    run.least = std::min(run.least, next.bytes);
    run.most = std::max(run.most, next.bytes);
  }
  return run;
}

// "1,023 copies of 16 B each", "3 copies of 12 B to 16 B each"
std::string Describe(const StepRun& run, size_t count) {
  const std::string least = run.least < run.most ? Bytes(run.least) + " to " : "";
  return text::FormatCount(count) + " copies of " + least + Bytes(run.most) + " each";
}

}  // namespace

std::string MicrosText(double micros) {
  char text[32];
  if (micros < 999.5) {
    std::snprintf(text, sizeof text, micros < 9.95 ? "%.1f us" : "%.0f us", micros);
    return text;
  }
  const bool is_short = micros < 999'500;
  const double amount = micros / (is_short ? 1000 : 1'000'000);
  // Three digits.
  const int decimals = amount < 9.995 ? 2 : amount < 99.95 ? 1 : 0;
  std::snprintf(text, sizeof text, "%.*f %s", decimals, amount, is_short ? "ms" : "s");
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
  out << "on GPUs: " << text::Printable(Describe(FindGraphOnGpus(file))) << '\n';
  PrintFragments(out, style, file);
  PrintReshards(out, style, file);
  PrintMemory(out, style, file);
  return OkStatus();
}

Status ExplainRank(std::ostream& out, const text::Style& style, const PlanFile& file, Rank rank) {
  LOCKSTEP_ASSIGN_OR_RETURN(const RankFacts facts, FindRank(file, rank));
  out << style.Paint(text::Tint::kBold, "Steps of rank " + std::to_string(rank)) << '\n';
  const bool has_unnamed =
      std::any_of(facts.buffers.begin(), facts.buffers.end(),
                  [](const BufferFacts& buffer) { return buffer.name.starts_with('#'); });
  if (has_unnamed) out << "  #N: a buffer that is needed in between, and is no value's\n";
  Table table({{"STEP", Table::Align::kRight},
               {"LANE", Table::Align::kRight},
               {"AFTER", Table::Align::kRight},
               {"KIND"},
               {"LINE"},
               {"WHAT"},
               {"BYTES", Table::Align::kRight}});
  for (size_t i = 0; i < facts.steps.size();) {
    const StepFacts& step = facts.steps[i];
    const StepRun run = RunFrom(i, facts.steps, file.lanes_overlap);
    const bool is_one = run.end == i + 1;
    // Steps that are done one after the other have no lanes.
    const bool waits = file.lanes_overlap && step.waits_for >= 0;
    table.AddRow(
        {is_one ? std::to_string(i) : std::to_string(i) + "-" + std::to_string(run.end - 1),
         file.lanes_overlap ? std::to_string(step.lane) : "",
         waits ? std::to_string(step.waits_for) : "", step.kind, step.where,
         is_one ? step.what : Describe(run, run.end - i) + ", " + step.what,
         run.bytes > 0 ? Bytes(run.bytes) : ""});
    i = run.end;
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
