#include "tools/cli/fragment/comparison.h"

#include <cmath>
#include <cstdio>
#include <sstream>

#include "tools/cli/tensor_text.h"
#include "tools/text/format.h"

namespace lockstep::cli {
namespace {

// Integers exactly, also beyond 2^53.
double DifferenceOf(const Number& a, const Number& b) {
  if (a == b) return 0;
  const auto* const x = std::get_if<int64_t>(&a);
  const auto* const y = std::get_if<int64_t>(&b);
  if (x != nullptr && y != nullptr) {
    const uint64_t apart = *x > *y ? static_cast<uint64_t>(*x) - static_cast<uint64_t>(*y)
                                   : static_cast<uint64_t>(*y) - static_cast<uint64_t>(*x);
    return static_cast<double>(apart);
  }
  const double p = ToDouble(a);
  const double q = ToDouble(b);
  // Equal infinities are not apart.
  if (p == q || (std::isnan(p) && std::isnan(q))) return 0;
  return std::fabs(p - q);
}

}  // namespace

StatusOr<Comparison> Compare(const HostTensor& actual, const HostTensor& reference,
                             const Tolerance& tolerance) {
  if (actual.shape != reference.shape) {
    return InvalidArgument("its shape is ", actual.shape, ", and the reference's is ",
                           reference.shape);
  }
  Comparison comparison;
  comparison.elements = actual.shape.NumElements();
  for (int64_t i = 0; i < comparison.elements; ++i) {
    const Number expected = ElementAt(reference, i);
    const double apart = DifferenceOf(ElementAt(actual, i), expected);
    const double allowed = tolerance.absolute + tolerance.relative * std::fabs(ToDouble(expected));
    // Not `apart > allowed`: nan differs. An infinite reference would allow everything.
    const bool agrees = apart == 0 || (std::isfinite(allowed) && apart <= allowed);
    if (!agrees) ++comparison.different;
    const bool is_larger =
        std::isnan(apart) ? !std::isnan(comparison.largest) : apart > comparison.largest;
    if (!is_larger) continue;
    comparison.largest = apart;
    comparison.largest_at = i;
  }
  return comparison;
}

std::string Describe(const Comparison& comparison, const HostTensor& actual,
                     const HostTensor& reference) {
  if (comparison.largest == 0) return "all elements are equal";
  std::ostringstream text;
  if (!comparison.Agrees()) {
    text << text::FormatCount(static_cast<uint64_t>(comparison.different)) << " of "
         << text::Plural(static_cast<uint64_t>(comparison.elements), "element")
         << (comparison.different == 1 ? " differs; " : " differ; ");
  }
  const std::string where = Coordinates(actual.shape, comparison.largest_at);
  char largest[32];
  std::snprintf(largest, sizeof largest, "%.3g", comparison.largest);
  text << "the largest difference is " << largest << (where.empty() ? "" : ", at ") << where;
  if (!comparison.Agrees()) {
    text << ": " << ToString(ElementAt(actual, comparison.largest_at)) << ", expected "
         << ToString(ElementAt(reference, comparison.largest_at));
  }
  return text.str();
}

}  // namespace lockstep::cli
