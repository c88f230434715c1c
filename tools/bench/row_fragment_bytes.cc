// What crosses between workers in PageRank: graphs that stay where they are, beside inputs that are
// sent each time, and beside what has to cross in any case.
#include <httplib.h>

#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/bench/clusters.h"
#include "tools/bench/fragment_cluster.h"
#include "tools/bench/report.h"
#include "tools/bench/rows.h"
#include "tools/bench/settings.h"

namespace lockstep::bench {
namespace {

using fragment::Combine;
using fragment::Fragment;
using fragment::Split;

constexpr double kBoundGoal = 1.05;
constexpr int kBytesWorkers = 4;
constexpr int kPageRankSteps = 20;
constexpr int64_t kNodes = 20'000;
constexpr int32_t kDegree = 8;  // each node links to so many, and as many link to it
constexpr double kDamping = 0.85;

// What the program examples/fragments/page_rank.cc gives to a step.
struct PageRankInputs {
  FragmentInput counts;
  FragmentInput neighbours;
  FragmentInput links;
  FragmentInput ranks;
  FragmentInput shares;
  FragmentInput sinks;
};

// Node i links to i + 1, i + 8, i + 27, ..., round about: all parts of the graph are equally large.
PageRankInputs DrawGraph() {
  std::vector<int32_t> neighbours;
  for (int64_t node = 0; node < kNodes; ++node) {
    for (int64_t i = 1; i <= kDegree; ++i) {
      neighbours.push_back(static_cast<int32_t>((node + kNodes - i * i * i) % kNodes));
    }
  }
  const std::vector<int32_t> degrees(kNodes, kDegree);
  const double alike = 1.0 / kNodes;
  return {{HostTensor::Of<int32_t>({kNodes}, degrees), Split::kRows},
          {HostTensor::Of<int32_t>({kNodes * kDegree}, neighbours), Split::kRows},
          {HostTensor::Of<int32_t>({kNodes}, degrees), Split::kRows},
          {HostTensor::Of<double>({kNodes}, std::vector<double>(kNodes, alike)), Split::kRows},
          {HostTensor::Of<double>({kNodes}, std::vector<double>(kNodes, alike / kDegree))},
          {HostTensor{DType::kFloat64, Shape(), std::string(sizeof(double), 0)}}};
}

// Bytes that a line of a worker's metrics tells of, if it is about what went to other workers.
double BytesSent(const std::string& line) {
  // Between the client and worker-0.
  if (line.find("backend=\"socket\"") != std::string::npos) return 0;
  constexpr std::string_view kBus = "lockstep_transfer_bus_bytes_total{";
  // Where tiles move, the size is what is sent, and the bus formula, which is for equal parts, is
  // not.
  constexpr std::string_view kTiles = "lockstep_transfer_bytes_total{operation=\"all_to_all\"";
  const bool is_of_tiles = line.find("operation=\"all_to_all\"") != std::string::npos;
  const bool counts = is_of_tiles ? line.rfind(kTiles, 0) == 0 : line.rfind(kBus, 0) == 0;
  return counts ? std::stod(line.substr(line.rfind(' ') + 1)) : 0;
}

// Bytes that crossed between workers so far.
StatusOr<double> BytesCrossed(const std::vector<std::string>& endpoints) {
  double bytes = 0;
  for (const std::string& endpoint : endpoints) {
    const auto answer = httplib::Client(endpoint).Get("/metrics");
    if (!answer) return Unavailable("no metrics from ", endpoint, ": ", to_string(answer.error()));
    std::istringstream lines(answer->body);
    for (std::string line; std::getline(lines, line);) bytes += BytesSent(line);
  }
  return bytes;
}

// Bytes of the steps. `again`: the graph is sent to each of them.
StatusOr<double> BytesOfSteps(const ServiceCluster& cluster, bool again) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::string> endpoints, cluster.WorkerMetrics());
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster.Connect());
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment page_rank, ExampleFragment("page_rank.mlir"));
  LOCKSTEP_ASSIGN_OR_RETURN(const CompiledFragment compiled, session.Compile(page_rank));
  LOCKSTEP_ASSIGN_OR_RETURN(const double before, BytesCrossed(endpoints));
  PageRankInputs inputs = DrawGraph();
  if (!again) {
    for (FragmentInput* input :
         {&inputs.counts, &inputs.neighbours, &inputs.links, &inputs.ranks}) {
      LOCKSTEP_ASSIGN_OR_RETURN(const DRef placed, session.Place(*input->tensor(), Split::kRows));
      *input = {placed, Split::kRows};
    }
  }
  for (int step = 0; step < kPageRankSteps; ++step) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<DRef> next,
                              session.Execute(compiled,
                                              {inputs.counts, inputs.neighbours, inputs.links,
                                               inputs.ranks, inputs.shares, inputs.sinks, kDamping},
                                              {{Combine::kRows, Shape{kNodes}},
                                               {Combine::kRows, Shape{kNodes}},
                                               {Combine::kAdd},
                                               {Combine::kAdd}}));
    LOCKSTEP_RETURN_IF_ERROR(session.Collect(next[3]).status());
    if (!again) {
      inputs.ranks = {next[0], Split::kRows};
      inputs.shares = next[1];
      inputs.sinks = next[2];
      continue;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(HostTensor ranks, session.Collect(next[0]));
    LOCKSTEP_ASSIGN_OR_RETURN(HostTensor shares, session.Collect(next[1]));
    LOCKSTEP_ASSIGN_OR_RETURN(HostTensor sinks, session.Collect(next[2]));
    inputs.ranks = {std::move(ranks), Split::kRows};
    inputs.shares = std::move(shares);
    inputs.sinks = std::move(sinks);
  }
  LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
  LOCKSTEP_ASSIGN_OR_RETURN(const double after, BytesCrossed(endpoints));
  LOCKSTEP_RETURN_IF_ERROR(session.Close());
  return after - before;
}

// What has to cross. Once, the graph and the first ranks from worker-0 to where they are used; in
// each step, each worker's shares to all others, and two numbers that are added up.
double LeastBytes() {
  constexpr double kOthers = kBytesWorkers - 1;
  constexpr double kEach = sizeof(int32_t) + kDegree * sizeof(int32_t) + sizeof(int32_t) +
                           sizeof(double);  // a node's count, neighbours, links, rank
  const double once = kEach * kNodes * kOthers / kBytesWorkers;
  const double shares = sizeof(double) * kNodes * kOthers;
  const double numbers = 2 * 2 * sizeof(double) * kOthers;
  return once + kPageRankSteps * (shares + numbers);
}

}  // namespace

Status MeasureFragmentBytes(const Settings& settings, Report& report) {
  constexpr double kMega = 1e6;
  Line& line = report.Add({.row = "fragments",
                           .what = "between 4 workers in 20 steps of PageRank, 20,000 nodes",
                           .unit = "MB",
                           .better = Better::kLess});
  Line& bound = report.Add({.row = "fragments",
                            .what = "the same, over what has to cross",
                            .unit = "x",
                            .better = Better::kLess,
                            .goal = Goal::ValueAtMost(kBoundGoal)});
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string compiler, FindCompiler());
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster,
                            ServiceCluster::Up(settings, kBytesWorkers,
                                               {"--set", "worker.compiler=" + compiler, "--set",
                                                "worker.metrics_endpoint=http://127.0.0.1:*"}));
  // The same each time.
  LOCKSTEP_ASSIGN_OR_RETURN(const double ours, BytesOfSteps(*cluster, false));
  line.ours.push_back(ours / kMega);
  LOCKSTEP_ASSIGN_OR_RETURN(const double again, BytesOfSteps(*cluster, true));
  line.Rival("inputs sent with each call").values.push_back(again / kMega);
  bound.ours.push_back(ours / LeastBytes());
  return cluster->Down();
}

}  // namespace lockstep::bench
