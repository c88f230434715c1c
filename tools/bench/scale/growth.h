// How what was measured grows with the number of workers: curves, and the power laws nearest to
// them.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace lockstep::bench {

// y = factor * x^exponent
struct PowerLaw {
  double factor = 0;
  double exponent = 0;

  double At(double x) const;
};

// The least squares of the logarithms: with u = ln x, v = ln y and their means U, V, the exponent
// is sum((u - U)(v - V)) / sum((u - U)^2), the factor e^(V - exponent * U). Points that are not
// above zero are left out; of fewer than two the exponent is 0. `x` and `y` have the same length.
PowerLaw FitPowerLaw(absl::Span<const double> x, absl::Span<const double> y);

// "1.09"; what is nearly nothing has no sign.
std::string ExponentText(double exponent);

struct Curve {
  std::string name;            // "CPU of a broadcast"
  std::string unit;            // "us"
  std::vector<double> values;  // one for each number of workers
};

struct Growth {
  std::vector<double> workers;
  std::vector<Curve> curves;

  // Of all points, and of the last ones alone: from `from` workers on, where what does not grow is
  // small beside what does.
  PowerLaw Law(const Curve& curve, double from = 0) const;
};

// Where the exponents of the second kind begin.
inline constexpr double kManyWorkers = 128;

// A line for each curve: its values, and its exponents.
void PrintGrowth(std::ostream& out, const Growth& growth);

// "0.052", "1.3", "17", "1,204": three digits that count.
std::string ShortNumber(double value);

}  // namespace lockstep::bench
