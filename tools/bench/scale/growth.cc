#include "tools/bench/scale/growth.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "tools/text/format.h"
#include "tools/text/table.h"
#include "tools/text/terminal.h"

namespace lockstep::bench {

double PowerLaw::At(double x) const { return factor * std::pow(x, exponent); }

PowerLaw FitPowerLaw(absl::Span<const double> x, absl::Span<const double> y) {
  std::vector<std::pair<double, double>> logs;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] > 0 && y[i] > 0) logs.emplace_back(std::log(x[i]), std::log(y[i]));
  }
  if (logs.empty()) return {};
  double mean_u = 0;
  double mean_v = 0;
  for (const auto& point : logs) {
    mean_u += point.first / static_cast<double>(logs.size());
    mean_v += point.second / static_cast<double>(logs.size());
  }
  double together = 0;
  double alone = 0;
  for (const auto& point : logs) {
    together += (point.first - mean_u) * (point.second - mean_v);
    alone += (point.first - mean_u) * (point.first - mean_u);
  }
  const double exponent = alone == 0 ? 0 : together / alone;
  return {std::exp(mean_v - exponent * mean_u), exponent};
}

std::string ExponentText(double exponent) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", std::abs(exponent) < 0.005 ? 0 : exponent);
  return text;
}

PowerLaw Growth::Law(const Curve& curve, double from) const {
  const auto first =
      static_cast<size_t>(std::lower_bound(workers.begin(), workers.end(), from) - workers.begin());
  return FitPowerLaw(absl::MakeConstSpan(workers).subspan(first),
                     absl::MakeConstSpan(curve.values).subspan(first));
}

std::string ShortNumber(double value) {
  if (value >= 99.95) return text::FormatCount(static_cast<uint64_t>(std::llround(value)));
  char number[32];
  const int digits = value >= 9.995 ? 1 : value >= 0.9995 ? 2 : 3;
  std::snprintf(number, sizeof number, "%.*f", digits, value);
  return number;
}

void PrintGrowth(std::ostream& out, const Growth& growth) {
  using Align = text::Table::Align;
  std::vector<text::Table::Column> columns = {{"of the controller"}, {"unit"}};
  for (const double workers : growth.workers) {
    columns.push_back({std::to_string(std::lround(workers)), Align::kRight});
  }
  columns.push_back({"exponent", Align::kRight});
  columns.push_back({"from " + std::to_string(std::lround(kManyWorkers)) + " on", Align::kRight});
  text::Table table(std::move(columns));
  for (const Curve& curve : growth.curves) {
    std::vector<text::Table::Cell> row = {curve.name, curve.unit};
    for (const double value : curve.values) row.emplace_back(ShortNumber(value));
    for (const double from : {0.0, kManyWorkers}) {
      const auto points = std::count_if(growth.workers.begin(), growth.workers.end(),
                                        [&](double workers) { return workers >= from; });
      row.emplace_back(points < 3 ? "" : ExponentText(growth.Law(curve, from).exponent));
    }
    table.AddRow(std::move(row));
  }
  table.Print(out, text::Style(false));
}

}  // namespace lockstep::bench
