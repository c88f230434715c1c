#include "tools/cli/plan/explain.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/quantity.h"
#include "runtime/base/rank_text.h"
#include "runtime/plan/bounds/bounds.h"
#include "runtime/plan/passes/program_lowering.h"
#include "runtime/plan/steps/program_steps.h"
#include "runtime/plan/steps/simulator.h"
#include "tools/text/format.h"

namespace lockstep::cli::plan_file {
namespace {

using plan::StepBuffer;

std::string NameOf(const PlanFile& file, plan::ValueId id) {
  const auto number = static_cast<size_t>(id);
  const std::string name = number < file.value_names.size() ? file.value_names[number] : "";
  const plan::ProgramValue& value = file.program().value(id);
  if (value.chunk_of != plan::kNoValue) {
    return NameOf(file, value.chunk_of) + "." + std::to_string(value.chunk + 1);
  }
  return name.empty() ? "value " + std::to_string(number) : name;
}

}  // namespace

std::string BufferName(const PlanFile& file, int buffer) {
  if (static_cast<size_t>(buffer) < file.program().values().size()) {
    return NameOf(file, plan::ValueId{buffer});
  }
  return "#" + std::to_string(buffer);
}

namespace {

struct StepText {
  std::string kind;
  std::string what;
  double bytes = 0;
};

class StepDescriber {
 public:
  StepDescriber(const PlanFile& file, const plan::ProgramSteps& steps)
      : file_(file), steps_(steps) {}

  StepText operator()(const plan::CallStep& call) const {
    const auto& op = std::get<plan::CallOp>(file_.program().ops()[call.op].what);
    std::string arguments;
    for (size_t i = 0; i < op.arguments.size(); ++i) {
      const plan::CallArgument& argument = op.arguments[i];
      const std::string mark = argument.use == plan::CallArgument::Use::kWrite    ? "write "
                               : argument.use == plan::CallArgument::Use::kUpdate ? "update "
                                                                                  : "";
      arguments +=
          (i == 0 ? "" : ", ") + mark +
          (call.argument_buffers[i] < 0 ? "..." : BufferName(file_, call.argument_buffers[i]));
    }
    std::string text =
        file_.program().functions()[static_cast<size_t>(op.function)] + "(" + arguments + ")";
    if (call.result_buffer >= 0) text += " to " + BufferName(file_, call.result_buffer);
    return {"call", text};
  }
  StepText operator()(const plan::CopyStep& copy) const {
    return {"copy",
            BufferName(file_, copy.from_buffer) + " to " + BufferName(file_, copy.to_buffer),
            BytesOf(copy.count, copy.to_buffer)};
  }
  StepText operator()(const plan::FillStep& fill) const {
    return {"fill", BufferName(file_, fill.to.buffer), BytesOf(fill.to.count, fill.to.buffer)};
  }
  StepText operator()(const plan::CollectiveStep& collective) const {
    // What is empty has any buffer.
    const auto end = [&](const plan::Span& span) {
      return span.count == 0 ? "(others)" : BufferName(file_, span.buffer);
    };
    const plan::Span& most =
        collective.send.count > collective.recv.count ? collective.send : collective.recv;
    return {
        std::string(FactsOf(collective.kind).name),
        end(collective.send) + " to " + end(collective.recv) + ", " + ListRanks(collective.team),
        BytesOf(most.count, most.buffer)};
  }

 private:
  double BytesOf(int64_t count, int buffer) const {
    const DType dtype = steps_.buffers[static_cast<size_t>(buffer)].dtype;
    return static_cast<double>(count) * static_cast<double>(SizeOf(dtype));
  }

  const PlanFile& file_;
  const plan::ProgramSteps& steps_;
};

// Of all ranks.
constexpr int64_t kMostSimulatedBytes = int64_t{2} << 30;

int64_t BytesOf(const plan::ProgramSteps& steps) {
  int64_t bytes = steps.arena_bytes;
  for (const StepBuffer& buffer : steps.buffers) {
    const bool is_own =
        buffer.home == StepBuffer::Home::kInput || buffer.home == StepBuffer::Home::kReturned;
    if (is_own) bytes += buffer.size_bytes();
  }
  return bytes;
}

const char* NameOf(StepBuffer::Home home) {
  switch (home) {
    case StepBuffer::Home::kNowhere:
      return "nowhere";
    case StepBuffer::Home::kInput:
      return "an input's register";
    case StepBuffer::Home::kReturned:
      return "what a function returns";
    case StepBuffer::Home::kArena:
      return "the plan's memory";
    case StepBuffer::Home::kOutput:
      return "an output's own memory";
    case StepBuffer::Home::kInside:
      return "inside another";
  }
  return "";
}

}  // namespace

std::vector<ReshardFacts> FindReshards(const PlanFile& file) {
  std::vector<ReshardFacts> all;
  for (const plan::LoweredOp& op : file.lowered.ops) {
    if (op.reshard == nullptr) continue;
    const plan::ProgramOp& source = file.program().ops()[op.op];
    const plan::Traffic traffic = op.reshard->TrafficIn(file.topology);
    const plan::Bounds bounds = plan::LowerBounds(op.reshard->from, op.reshard->to, file.topology);
    all.push_back({source.where, NameOf(file, op.source), NameOf(file, op.result),
                   op.reshard->Describe(), traffic.BusiestRank(), bounds.busiest_rank,
                   traffic.BusiestNode(), bounds.busiest_node, op.reshard->cost_us});
  }
  return all;
}

std::vector<MemoryFacts> FindMemory(const PlanFile& file) {
  std::vector<MemoryFacts> rows;
  for (const Rank rank : file.program().Ranks()) {
    const plan::ProgramSteps steps = file.StepsOf(rank);
    const MemoryFacts row{{rank},
                          steps.steps.size(),
                          steps.arena_bytes,
                          steps.arena_bytes_bound,
                          steps.arena_bytes_apart};
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const MemoryFacts& other) {
      return other.steps == row.steps && other.peak == row.peak &&
             other.live_at_once == row.live_at_once && other.all_buffers == row.all_buffers;
    });
    if (same == rows.end()) {
      rows.push_back(row);
    } else {
      same->ranks.push_back(rank);
    }
  }
  return rows;
}

std::vector<StepFacts> DescribeSteps(const PlanFile& file, const plan::ProgramSteps& steps) {
  std::vector<StepFacts> all;
  for (const plan::ProgramStep& step : steps.steps) {
    StepText said = std::visit(StepDescriber(file, steps), step.what);
    all.push_back({std::move(said.kind), plan::LinesOf(file.program(), step), std::move(said.what),
                   said.bytes, step.lane == plan::Lane::kCompute ? 1 : 2, step.waits_for});
  }
  return all;
}

StatusOr<RankFacts> FindRank(const PlanFile& file, Rank rank) {
  const std::vector<Rank> ranks = file.program().Ranks();
  if (!std::binary_search(ranks.begin(), ranks.end(), rank)) {
    return InvalidArgument("rank ", rank, " has no part in the plan; it has ", ListRanks(ranks));
  }
  const plan::ProgramSteps steps = file.StepsOf(rank);
  RankFacts facts{DescribeSteps(file, steps), {}};
  for (size_t i = 0; i < steps.buffers.size(); ++i) {
    const StepBuffer& buffer = steps.buffers[i];
    if (buffer.home == StepBuffer::Home::kNowhere) continue;
    const bool is_inside = buffer.home == StepBuffer::Home::kInside;
    facts.buffers.push_back({BufferName(file, static_cast<int>(i)), buffer,
                             is_inside ? BufferName(file, buffer.inside) + ", from element " +
                                             text::FormatCount(static_cast<uint64_t>(buffer.offset))
                                       : NameOf(buffer.home)});
  }
  return facts;
}

size_t CountNodes(const PlanFile& file) {
  std::set<int> nodes;
  for (const Rank rank : file.program().Ranks()) nodes.insert(file.topology.NodeOf(rank));
  return nodes.size();
}

StatusOr<SimulationFacts> RunSimulation(const PlanFile& file) {
  const auto start = std::chrono::steady_clock::now();
  std::map<Rank, plan::SimulatedRank> ranks;
  size_t steps = 0;
  int64_t bytes = 0;
  for (const Rank rank : file.program().Ranks()) {
    plan::SimulatedRank& state = ranks[rank];
    state.program = file.StepsOf(rank);
    steps += state.program.steps.size();
    bytes += BytesOf(state.program);
    if (bytes > kMostSimulatedBytes) {
      return ResourceExhausted("all ranks together hold more than ",
                               RoundedSize(kMostSimulatedBytes),
                               ", which one process is not to take; simulate smaller shapes");
    }
    state.Allocate();
  }
  const auto call = [](Rank, const plan::CallStep&, plan::SimulatedRank&) { return OkStatus(); };
  LOCKSTEP_RETURN_IF_ERROR(plan::Simulate(ranks, call));
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  return SimulationFacts{ranks.size(), steps, took};
}

}  // namespace lockstep::cli::plan_file
