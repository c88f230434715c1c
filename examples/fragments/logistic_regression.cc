// Logistic regression by gradient descent: benign and malignant tumours. The measurements are sent
// once; weights and gradients stay on the workers, and nobody waits for a step.
#include <cmath>
#include <cstdio>

#include "examples/fragments/calls.h"
#include "examples/fragments/programs.h"
#include "examples/fragments/tables.h"

namespace lockstep::examples::fragments {

StatusOr<LogisticFit> LogisticRegression(Session& session, const HostTensor& x,
                                         const std::vector<double>& y, int steps, double rate) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment gradient, ReadFragment("logistic_gradient.mlir"));
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment descend, ReadFragment("descend.mlir"));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef rows, session.Place(x, Split::kRows));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef truth, session.Place(Vector(y), Split::kRows));
  const auto count = static_cast<double>(x.shape[0]);
  const Shape weights{x.shape[1]};

  FragmentInput w(HostTensor::Of<double>(weights, std::vector<double>(x.shape[1], 0)));
  DRef loss;
  for (int step = 0; step < steps; ++step) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        const std::vector<DRef> sums,
        session.Execute(gradient, {{rows, Split::kRows}, {truth, Split::kRows}, w},
                        {{Combine::kAdd, weights}, {Combine::kAdd}}));
    LOCKSTEP_ASSIGN_OR_RETURN(
        const std::vector<DRef> next,
        session.Execute(descend, {w, sums[0], rate / count}, {{Combine::kNone, weights}}));
    w = next[0];
    loss = sums[1];
  }
  LogisticFit fit;
  LOCKSTEP_ASSIGN_OR_RETURN(fit.w, Collect(session, *w.ref()));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<double> sum, Collect(session, loss));
  fit.loss = sum[0] / count;
  return fit;
}

Status ShowLogisticRegression(Session& session) {
  constexpr int kSteps = 200;
  constexpr double kRate = 0.5;
  LOCKSTEP_ASSIGN_OR_RETURN(const Tumours tumours, ReadTumours());
  LOCKSTEP_ASSIGN_OR_RETURN(
      const LogisticFit fit,
      LogisticRegression(session, tumours.measurements, tumours.is_benign, kSteps, kRate));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<double> z,
                            Product(session, tumours.measurements, fit.w));
  size_t right = 0;
  for (size_t i = 0; i < z.size(); ++i) {
    right += (z[i] > 0) == (tumours.is_benign[i] == 1) ? 1 : 0;
  }
  std::printf("loss %.4f after %d steps; %zu of %zu tumours told apart\n", fit.loss, kSteps, right,
              z.size());
  return OkStatus();
}

}  // namespace lockstep::examples::fragments
