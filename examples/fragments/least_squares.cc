// Linear regression by its normal equations: handwritten digits. What each worker's images add to
// the equations is added up where it lies; the client solves them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "examples/fragments/calls.h"
#include "examples/fragments/programs.h"
#include "examples/fragments/tables.h"

namespace lockstep::examples::fragments {
namespace {

constexpr int64_t kClasses = 10;

// Solves gram * w = moments, by Cholesky's decomposition.
std::vector<double> Solve(std::vector<double> gram, std::vector<double> w, int64_t inputs,
                          int64_t outputs) {
  const auto at = [&](int64_t i, int64_t j) -> double& { return gram[i * inputs + j]; };
  for (int64_t i = 0; i < inputs; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      for (int64_t k = 0; k < j; ++k) at(i, j) -= at(i, k) * at(j, k);
      at(i, j) = i == j ? std::sqrt(at(i, i)) : at(i, j) / at(j, j);
    }
  }
  for (int64_t c = 0; c < outputs; ++c) {
    for (int64_t i = 0; i < inputs; ++i) {
      for (int64_t k = 0; k < i; ++k) w[i * outputs + c] -= at(i, k) * w[k * outputs + c];
      w[i * outputs + c] /= at(i, i);
    }
    for (int64_t i = inputs - 1; i >= 0; --i) {
      for (int64_t k = i + 1; k < inputs; ++k) w[i * outputs + c] -= at(k, i) * w[k * outputs + c];
      w[i * outputs + c] /= at(i, i);
    }
  }
  return w;
}

// The rows of a table that are every fifth, or all others.
HostTensor Rows(const HostTensor& table, bool every_fifth) {
  const size_t row_bytes = table.data.size() / static_cast<size_t>(table.shape[0]);
  HostTensor rows{table.dtype, {0, table.shape[1]}, ""};
  int64_t count = 0;
  for (int64_t i = 0; i < table.shape[0]; ++i) {
    if ((i % 5 == 4) != every_fifth) continue;
    rows.data.append(table.data, static_cast<size_t>(i) * row_bytes, row_bytes);
    ++count;
  }
  rows.shape = {count, table.shape[1]};
  return rows;
}

}  // namespace

StatusOr<HostTensor> LeastSquares(Session& session, const HostTensor& x, const HostTensor& y) {
  const int64_t inputs = x.shape[1];
  const int64_t outputs = y.shape[1];
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment normal_equations, ReadFragment("normal_equations.mlir"));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<DRef> sums,
      session.Execute(
          normal_equations, {{x, Split::kRows}, {y, Split::kRows}},
          {{Combine::kAdd, Shape{inputs, inputs}}, {Combine::kAdd, Shape{inputs, outputs}}}));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<double> gram, Collect(session, sums[0]));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<double> moments, Collect(session, sums[1]));
  // |w|^2: where columns depend on each other, there is one answer all the same.
  for (int64_t i = 0; i < inputs; ++i) gram[i * inputs + i] += 1;
  return HostTensor::Of<double>({inputs, outputs},
                                Solve(std::move(gram), std::move(moments), inputs, outputs));
}

Status ShowLeastSquares(Session& session) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Digits digits, ReadDigits());
  // 1 in the column of each image's digit.
  std::vector<double> truth(digits.labels.size() * kClasses, 0);
  for (size_t i = 0; i < digits.labels.size(); ++i) truth[i * kClasses + digits.labels[i]] = 1;
  const HostTensor y = HostTensor::Of<double>({digits.pixels.shape[0], kClasses}, truth);

  LOCKSTEP_ASSIGN_OR_RETURN(const HostTensor w,
                            LeastSquares(session, Rows(digits.pixels, false), Rows(y, false)));

  // How well the others fit each digit.
  const HostTensor held_out = Rows(digits.pixels, true);
  const int64_t images = held_out.shape[0];
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment scores, ReadFragment("scores.mlir"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<DRef> fits,
                            session.Execute(scores, {{held_out, Split::kRows}, w},
                                            {{Combine::kRows, Shape{images, kClasses}}}));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<double> fit, Collect(session, fits[0]));
  int64_t right = 0;
  for (int64_t i = 0; i < images; ++i) {
    const auto begin = fit.begin() + i * kClasses;
    const auto best = std::max_element(begin, begin + kClasses) - begin;
    right += best == digits.labels[static_cast<size_t>(i * 5 + 4)] ? 1 : 0;
  }
  std::printf("%lld of %lld held-out images recognized\n", static_cast<long long>(right),
              static_cast<long long>(images));
  return OkStatus();
}

}  // namespace lockstep::examples::fragments
