#include "tools/bench/report.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace lockstep::bench {
namespace {

double Ratio(Better better, double ours, double rival) {
  return better == Better::kMore ? ours / rival : rival / ours;
}

bool Reached(const Goal& goal, const Verdict& verdict) {
  switch (goal.kind) {
    case Goal::Kind::kNone:
      return true;
    case Goal::Kind::kRatioAtLeast:
      return verdict.ratio >= goal.bound;
    case Goal::Kind::kValueAtMost:
      return verdict.ours <= goal.bound;
    case Goal::Kind::kValueAtLeast:
      return verdict.ours >= goal.bound;
  }
  return false;
}

}  // namespace

Series& Line::Rival(const std::string& name) {
  const auto found = std::find_if(rivals.begin(), rivals.end(),
                                  [&](const Series& series) { return series.name == name; });
  if (found != rivals.end()) return *found;
  rivals.push_back({name, {}});
  return rivals.back();
}

Verdict Judge(const Line& line) {
  Verdict verdict;
  if (line.ours.empty()) {
    verdict.outcome = Verdict::Outcome::kNotMeasured;
    return verdict;
  }
  verdict.ours = Median(line.ours);
  for (const Series& rival : line.rivals) {
    if (rival.values.empty()) continue;
    const double value = Median(rival.values);
    if (verdict.best_rival == nullptr || Ratio(line.better, value, verdict.rival) > 1) {
      verdict.best_rival = &rival;
      verdict.rival = value;
    }
  }
  if (verdict.best_rival != nullptr) {
    std::vector<double> ratios;
    const size_t rounds = std::min(line.ours.size(), verdict.best_rival->values.size());
    for (size_t i = 0; i < rounds; ++i) {
      ratios.push_back(Ratio(line.better, line.ours[i], verdict.best_rival->values[i]));
    }
    verdict.ratio = Median(ratios);
  }
  if (line.goal.kind == Goal::Kind::kNone) return verdict;
  if (line.goal.kind == Goal::Kind::kRatioAtLeast && verdict.best_rival == nullptr) {
    verdict.outcome = Verdict::Outcome::kNotMeasured;
    return verdict;
  }
  verdict.outcome = Reached(line.goal, verdict) ? Verdict::Outcome::kPass : Verdict::Outcome::kMiss;
  return verdict;
}

std::string Name(Verdict::Outcome outcome) {
  switch (outcome) {
    case Verdict::Outcome::kInformation:
      return "-";
    case Verdict::Outcome::kPass:
      return "pass";
    case Verdict::Outcome::kMiss:
      return "MISS";
    case Verdict::Outcome::kNotMeasured:
      return "not measured";
  }
  return "";
}

double Percentile(std::vector<double> values, double fraction) {
  const auto rank = static_cast<size_t>(std::ceil(fraction * static_cast<double>(values.size())));
  const size_t index = std::clamp<size_t>(rank, 1, values.size()) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(index), values.end());
  return values[index];
}

}  // namespace lockstep::bench
