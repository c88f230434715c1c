// Sums of rows: how much ink each digit takes.
#include <array>
#include <cstdio>
#include <string>

#include "examples/fragments/calls.h"
#include "examples/fragments/programs.h"
#include "examples/fragments/tables.h"

namespace lockstep::examples::fragments {

StatusOr<std::vector<double>> RowSums(Session& session, const HostTensor& x) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment row_sums, ReadFragment("row_sums.mlir"));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<DRef> sums,
      session.Execute(row_sums, {{x, Split::kRows}}, {{Combine::kRows, Shape{x.shape[0]}}}));
  return Collect(session, sums[0]);
}

Status ShowRowSums(Session& session) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Digits digits, ReadDigits());
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<double> ink, RowSums(session, digits.pixels));
  std::array<double, 10> sums{};
  std::array<int, 10> images{};
  for (size_t i = 0; i < ink.size(); ++i) {
    sums[digits.labels[i]] += ink[i];
    ++images[digits.labels[i]];
  }
  std::printf("Pixels of ink in an image, by its digit (of 64):\n");
  for (size_t digit = 0; digit < sums.size(); ++digit) {
    const double mean = sums[digit] / images[digit];
    std::printf("  %zu  %5.2f  %s\n", digit, mean,
                std::string(static_cast<size_t>(mean), '#').c_str());
  }
  return OkStatus();
}

}  // namespace lockstep::examples::fragments
