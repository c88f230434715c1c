// X w: tumours along the line from the mean of the malignant ones to that of the benign ones.
#include <cstdio>

#include "examples/fragments/calls.h"
#include "examples/fragments/programs.h"
#include "examples/fragments/tables.h"

namespace lockstep::examples::fragments {

StatusOr<std::vector<double>> Product(Session& session, const HostTensor& x,
                                      const std::vector<double>& w) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment product, ReadFragment("product.mlir"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<DRef> products,
                            session.Execute(product, {{x, Split::kRows}, Vector(w)},
                                            {{Combine::kRows, Shape{x.shape[0]}}}));
  return Collect(session, products[0]);
}

Status ShowProduct(Session& session) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Tumours tumours, ReadTumours());
  const HostTensor& x = tumours.measurements;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<double> elements, x.Elements<double>());
  const auto columns = static_cast<size_t>(x.shape[1]);
  double benign = 0;
  for (const double one : tumours.is_benign) benign += one;
  const double malignant = static_cast<double>(tumours.is_benign.size()) - benign;
  // From one mean to the other.
  std::vector<double> w(columns, 0);
  for (size_t i = 0; i < elements.size(); ++i) {
    const bool is_benign = tumours.is_benign[i / columns] == 1;
    w[i % columns] += is_benign ? elements[i] / benign : -elements[i] / malignant;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<double> along, Product(session, x, w));
  size_t right = 0;
  for (size_t i = 0; i < along.size(); ++i) {
    right += (along[i] > 0) == (tumours.is_benign[i] == 1) ? 1 : 0;
  }
  std::printf("%zu of %zu tumours lie on their side of the mean of all\n", right, along.size());
  return OkStatus();
}

}  // namespace lockstep::examples::fragments
