#include "tools/cli/plan/explain_json.h"

#include <cmath>

#include "tools/cli/plan/fragment_moves.h"
#include "tools/cli/plan/graph_on_gpus.h"

namespace lockstep::cli::plan_file {
namespace {

// Averages over ranks may have fractions.
int64_t RoundedBytes(double bytes) { return std::llround(bytes); }

// To a thousandth: the rest is noise of adding up.
double RoundedMicros(double micros) { return std::round(micros * 1000) / 1000; }

Json FragmentsToJson(const PlanFile& file) {
  Json fragments = Json::array();
  for (const FragmentFacts& one : FindFragments(file)) {
    Json inputs = Json::array();
    Json results = Json::array();
    for (const FragmentTensorFacts& tensor : one.tensors) {
      Json& list = tensor.is_result ? results : inputs;
      list.push_back({{"name", tensor.name},
                      {tensor.is_result ? "combine" : "split", tensor.how},
                      {"sent_bytes", RoundedBytes(tensor.sent_bytes)}});
    }
    fragments.push_back({{"where", one.where},
                         {"fragment", one.name},
                         {"inputs", std::move(inputs)},
                         {"results", std::move(results)}});
  }
  return fragments;
}

}  // namespace

Json PlanToJson(const PlanFile& file) {
  Json reshards = Json::array();
  for (const ReshardFacts& one : FindReshards(file)) {
    reshards.push_back({{"where", one.where},
                        {"from", one.from},
                        {"to", one.to},
                        {"as", one.as},
                        {"busiest_rank_bytes", RoundedBytes(one.rank_bytes)},
                        {"busiest_rank_bound_bytes", RoundedBytes(one.rank_bound)},
                        {"busiest_node_bytes", RoundedBytes(one.node_bytes)},
                        {"busiest_node_bound_bytes", RoundedBytes(one.node_bound)},
                        {"predicted_us", RoundedMicros(one.predicted_us)}});
  }
  Json memory = Json::array();
  for (const MemoryFacts& one : FindMemory(file)) {
    memory.push_back({{"ranks", one.ranks},
                      {"steps", one.steps},
                      {"peak_bytes", one.peak},
                      {"live_at_once_bytes", one.live_at_once},
                      {"all_buffers_bytes", one.all_buffers}});
  }
  return {{"operations", file.written->ops().size()},
          {"values", file.written->values().size()},
          {"ranks", file.program().Ranks().size()},
          {"nodes", CountNodes(file)},
          {"predicted_us", RoundedMicros(file.lowered.cost_us)},
          {"graph_on_gpus", Describe(FindGraphOnGpus(file))},
          {"passes", file.lowered.notes},
          {"fragments", FragmentsToJson(file)},
          {"reshards", std::move(reshards)},
          {"memory", std::move(memory)}};
}

Json RankToJson(Rank rank, const RankFacts& facts) {
  Json steps = Json::array();
  for (const StepFacts& step : facts.steps) {
    steps.push_back({{"step", steps.size()},
                     {"kind", step.kind},
                     {"where", step.where},
                     {"what", step.what},
                     {"bytes", RoundedBytes(step.bytes)},
                     {"lane", step.lane},
                     {"after", step.waits_for < 0 ? Json() : Json(step.waits_for)}});
  }
  Json buffers = Json::array();
  for (const BufferFacts& one : facts.buffers) {
    const plan::StepBuffer& buffer = one.buffer;
    const bool is_in_arena = buffer.home == plan::StepBuffer::Home::kArena;
    const absl::Span<const int64_t> extents = buffer.extents.dims();
    buffers.push_back({{"name", one.name},
                       {"dtype", Name(buffer.dtype)},
                       {"shape", std::vector<int64_t>(extents.begin(), extents.end())},
                       {"bytes", buffer.size_bytes()},
                       {"offset", is_in_arena ? Json(buffer.arena_offset) : Json()},
                       {"lies_in", one.lies_in}});
  }
  return {{"rank", rank}, {"steps", std::move(steps)}, {"buffers", std::move(buffers)}};
}

Json SimulationToJson(const SimulationFacts& facts) {
  return {{"ranks", facts.ranks}, {"steps", facts.steps}, {"milliseconds", facts.took.count()}};
}

}  // namespace lockstep::cli::plan_file
