// The few statistics that the benchmarks report.
#pragma once

#include <utility>
#include <vector>

namespace lockstep::bench {

// The value below which `fraction` (0 to 1) of `values` lie, by the nearest rank. `values` is not
// empty; it is taken by value because it gets sorted.
double Percentile(std::vector<double> values, double fraction);

inline double Median(std::vector<double> values) { return Percentile(std::move(values), 0.5); }

}  // namespace lockstep::bench
