#include "tools/cli/plan/analysis.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "runtime/base/quantity.h"
#include "runtime/base/rank_text.h"
#include "runtime/plan/lowering/traffic.h"
#include "runtime/trace/event.h"
#include "tools/cli/plan/explain.h"
#include "tools/cli/plan/explain_text.h"
#include "tools/cli/plan/schedule.h"
#include "tools/text/format.h"
#include "tools/text/table.h"

namespace lockstep::cli::plan_file {
namespace {

using plan::CollectiveStep;
using plan::ProgramStep;

double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double MicrosOf(int64_t nanos) { return static_cast<double>(nanos) / 1000; }

const CollectiveStep* CollectiveOf(const ProgramStep& step) {
  return std::get_if<CollectiveStep>(&step.what);
}

class Analyzer {
 public:
  Analyzer(const PlanFile& file, const std::map<Rank, std::vector<MeasuredStep>>& measured)
      : file_(file), measured_(measured) {}

  StatusOr<PlanAnalysis> Run() {
    std::map<Rank, plan::ProgramSteps> ranks;
    for (const Rank rank : file_.program().Ranks()) {
      ranks.emplace(rank, file_.StepsOf(rank));
    }
    const auto schedule = Schedule(ranks, file_.topology, plan::CostModel(), 0);
    for (auto& [rank, steps] : ranks) {
      RankAnalysis& analysis = analysis_.ranks[rank];
      analysis.steps = std::move(steps);
      for (const ScheduledStep& step : schedule.at(rank)) {
        analysis.times.push_back({step.end - step.begin});
        analysis_.predicted = std::max(analysis_.predicted, step.end);
      }
    }
    LOCKSTEP_RETURN_IF_ERROR(CheckSteps());
    FindArrivals();
    for (auto& [rank, analysis] : analysis_.ranks) AddTimes(rank, analysis);
    AddTotals();
    return std::move(analysis_);
  }

 private:
  // Which collective, of which team (its first rank), in which execution.
  using Meeting = std::tuple<int, Rank, uint64_t>;
  static Meeting MeetingOf(const CollectiveStep& collective, uint64_t execution) {
    return {collective.number, collective.team.front(), execution};
  }

  const std::vector<MeasuredStep>& MeasuredOf(Rank rank) const {
    static const auto* const kNone = new std::vector<MeasuredStep>();
    const auto found = measured_.find(rank);
    return found == measured_.end() ? *kNone : found->second;
  }

  // What a timeline calls a step; of a call it begins with the function, which may be any.
  bool IsNamedSo(const MeasuredStep& measured, const StepFacts& facts) const {
    if (facts.kind == "call") return true;
    trace::Event expected;
    expected.SetName(facts.kind + ", " + facts.where);
    return measured.name == expected.name;
  }

  // Each rank has recorded its own steps, each as often as all others.
  Status CheckSteps() {
    std::set<uint64_t> executions;
    for (const auto& [rank, steps] : measured_) {
      for (const MeasuredStep& step : steps) executions.insert(step.execution);
    }
    analysis_.executions = executions.size();
    for (const auto& [rank, analysis] : analysis_.ranks) {
      const std::vector<StepFacts> facts = DescribeSteps(file_, analysis.steps);
      std::vector<size_t> counts(facts.size(), 0);
      for (const MeasuredStep& step : MeasuredOf(rank)) {
        if (step.step < facts.size() && IsNamedSo(step, facts[step.step])) ++counts[step.step];
      }
      const bool is_whole = MeasuredOf(rank).size() == counts.size() * executions.size() &&
                            std::all_of(counts.begin(), counts.end(),
                                        [&](size_t count) { return count == executions.size(); });
      if (is_whole) continue;
      const char* const why =
          "; events were lost, or ranks of one host do not share memory: then they have other "
          "steps";
      if (MeasuredOf(rank).size() == counts.size() * executions.size()) {
        return FailedPrecondition("rank ", rank, " has recorded other steps than are expected",
                                  why);
      }
      return FailedPrecondition("rank ", rank, " has recorded ", MeasuredOf(rank).size(),
                                " steps of ", text::Plural(executions.size(), "execution"),
                                ", and has ", counts.size(), " in each", why);
    }
    return OkStatus();
  }

  void FindArrivals() {
    for (const auto& [rank, analysis] : analysis_.ranks) {
      for (const MeasuredStep& step : MeasuredOf(rank)) {
        const CollectiveStep* const collective = CollectiveOf(analysis.steps.steps[step.step]);
        if (collective == nullptr) continue;
        int64_t& last = last_arrivals_[MeetingOf(*collective, step.execution)];
        last = std::max(last, step.begin);
      }
    }
  }

  void AddTimes(Rank rank, RankAnalysis& analysis) {
    std::vector<std::vector<double>> took(analysis.times.size());
    std::vector<std::vector<double>> waited(analysis.times.size());
    for (const MeasuredStep& step : MeasuredOf(rank)) {
      int64_t begin = step.begin;
      if (const auto* collective = CollectiveOf(analysis.steps.steps[step.step])) {
        // By clocks that are a little apart, a rank may leave before the last one has come.
        begin = std::min(last_arrivals_.at(MeetingOf(*collective, step.execution)), step.end);
      }
      took[step.step].push_back(MicrosOf(step.end - begin));
      waited[step.step].push_back(MicrosOf(begin - step.begin));
    }
    for (size_t i = 0; i < took.size(); ++i) {
      StepAnalysis& times = analysis.times[i];
      times.measured = MedianOf(std::move(took[i]));
      times.waited = MedianOf(std::move(waited[i]));
      times.is_predicted = !std::holds_alternative<plan::CallStep>(analysis.steps.steps[i].what);
      analysis.measured += times.measured;
    }
  }

  void AddTotals() {
    std::map<uint64_t, std::pair<int64_t, int64_t>> spans;
    for (const auto& [rank, steps] : measured_) {
      for (const MeasuredStep& step : steps) {
        const auto [at, is_new] = spans.emplace(step.execution, std::pair(step.begin, step.end));
        if (is_new) continue;
        at->second.first = std::min(at->second.first, step.begin);
        at->second.second = std::max(at->second.second, step.end);
      }
    }
    std::vector<double> all;
    for (const auto& [execution, span] : spans) all.push_back(MicrosOf(span.second - span.first));
    if (all.empty()) return;
    analysis_.fastest = *std::min_element(all.begin(), all.end());
    analysis_.slowest = *std::max_element(all.begin(), all.end());
    analysis_.median = MedianOf(std::move(all));
    const auto slowest = std::max_element(
        analysis_.ranks.begin(), analysis_.ranks.end(),
        [](const auto& a, const auto& b) { return a.second.measured < b.second.measured; });
    analysis_.slowest_rank = slowest->first;
  }

  const PlanFile& file_;
  const std::map<Rank, std::vector<MeasuredStep>>& measured_;
  std::map<Meeting, int64_t> last_arrivals_;
  PlanAnalysis analysis_;
};

// The same step of other ranks: of the same operation and kind, and as many of these before it.
using StepKey = std::tuple<size_t, std::string, size_t>;
std::vector<StepKey> KeysOf(const RankAnalysis& rank, const std::vector<StepFacts>& facts) {
  std::map<std::pair<size_t, std::string>, size_t> counts;
  std::vector<StepKey> keys;
  for (size_t i = 0; i < facts.size(); ++i) {
    const size_t op = rank.steps.steps[i].op;
    keys.emplace_back(op, facts[i].kind, counts[{op, facts[i].kind}]++);
  }
  return keys;
}

struct SlowestRank {
  Rank rank = 0;
  double measured = -1;
};
std::map<StepKey, SlowestRank> FindSlowest(const PlanFile& file, const PlanAnalysis& analysis) {
  std::map<StepKey, SlowestRank> slowest;
  for (const auto& [rank, one] : analysis.ranks) {
    const std::vector<StepKey> keys = KeysOf(one, DescribeSteps(file, one.steps));
    for (size_t i = 0; i < keys.size(); ++i) {
      SlowestRank& at = slowest[keys[i]];
      if (one.times[i].measured > at.measured) at = {rank, one.times[i].measured};
    }
  }
  return slowest;
}

}  // namespace

Status CheckWorkers(const PlanFile& file, int workers) {
  const std::vector<Rank> ranks = file.program().Ranks();
  if (ranks.empty() || ranks.back() < workers) return OkStatus();
  return InvalidArgument("the plan has ", ListRanks(ranks), ", and so needs ", ranks.back() + 1,
                         " workers; there ", workers == 1 ? "is " : "are ", workers);
}

StatusOr<PlanAnalysis> Analyze(const PlanFile& file,
                               const std::map<Rank, std::vector<MeasuredStep>>& measured) {
  return Analyzer(file, measured).Run();
}

void PrintAnalysis(std::ostream& out, const text::Style& style, const PlanFile& file,
                   const PlanAnalysis& analysis, Rank rank) {
  out << text::Plural(analysis.executions, "execution") << " on "
      << text::Plural(analysis.ranks.size(), "rank") << ": " << MicrosText(analysis.median)
      << " each (median; " << MicrosText(analysis.fastest) << " to " << MicrosText(analysis.slowest)
      << "), predicted " << MicrosText(analysis.predicted) << " without functions\n\n";
  const std::string which = rank == analysis.slowest_rank ? ", which works longest" : "";
  out << style.Paint(text::Tint::kBold, "Steps of rank " + std::to_string(rank) + which) << '\n';
  text::Table table({{"STEP", text::Table::Align::kRight},
                     {"KIND"},
                     {"LINE"},
                     {"BYTES", text::Table::Align::kRight},
                     {"PREDICTED", text::Table::Align::kRight},
                     {"MEASURED", text::Table::Align::kRight},
                     {"WAITED", text::Table::Align::kRight},
                     {"SLOWEST", text::Table::Align::kRight},
                     {"ON"}});
  const RankAnalysis& one = analysis.ranks.at(rank);
  const std::vector<StepFacts> facts = DescribeSteps(file, one.steps);
  const std::vector<StepKey> keys = KeysOf(one, facts);
  const std::map<StepKey, SlowestRank> slowest = FindSlowest(file, analysis);
  for (size_t i = 0; i < facts.size(); ++i) {
    const StepAnalysis& times = one.times[i];
    const SlowestRank& worst = slowest.at(keys[i]);
    // A call is told by its function.
    const std::string kind =
        facts[i].kind == "call" ? facts[i].what.substr(0, facts[i].what.find('(')) : facts[i].kind;
    table.AddRow({std::to_string(i), kind, facts[i].where,
                  facts[i].bytes > 0 ? RoundedSize(static_cast<uint64_t>(facts[i].bytes)) : "",
                  times.is_predicted ? MicrosText(times.predicted) : "", MicrosText(times.measured),
                  CollectiveOf(one.steps.steps[i]) != nullptr ? MicrosText(times.waited) : "",
                  MicrosText(worst.measured), "rank " + std::to_string(worst.rank)});
  }
  table.Print(out, style, 2);
}

Json AnalysisToJson(const PlanFile& file, const PlanAnalysis& analysis) {
  const auto micros = [](double value) { return std::round(value * 1000) / 1000; };
  Json ranks = Json::array();
  for (const auto& [rank, one] : analysis.ranks) {
    const std::vector<StepFacts> facts = DescribeSteps(file, one.steps);
    Json steps = Json::array();
    for (size_t i = 0; i < facts.size(); ++i) {
      const StepAnalysis& times = one.times[i];
      steps.push_back(
          {{"step", i},
           {"kind", facts[i].kind},
           {"where", facts[i].where},
           {"what", facts[i].what},
           {"bytes", std::llround(facts[i].bytes)},
           {"predicted_us", times.is_predicted ? Json(micros(times.predicted)) : Json()},
           {"measured_us", micros(times.measured)},
           {"waited_us", micros(times.waited)}});
    }
    ranks.push_back(
        {{"rank", rank}, {"measured_us", micros(one.measured)}, {"steps", std::move(steps)}});
  }
  return {{"executions", analysis.executions},
          {"median_us", micros(analysis.median)},
          {"fastest_us", micros(analysis.fastest)},
          {"slowest_us", micros(analysis.slowest)},
          {"predicted_us", micros(analysis.predicted)},
          {"slowest_rank", analysis.slowest_rank},
          {"ranks", std::move(ranks)}};
}

}  // namespace lockstep::cli::plan_file
