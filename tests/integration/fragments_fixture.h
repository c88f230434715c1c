// Sessions that use fragments. The compiler is a stand-in, and what it gives does what its first
// argument asks for.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "tests/integration/session_fixture.h"

namespace lockstep::testing {

using fragment::Combine;
using fragment::Fragment;
using fragment::Split;

// See tests/unit/runtime/fragment/testdata/test_object.cc.
enum Asked : int64_t {
  kSum = 0,
  kDivideByZero = 1,
  kUntilAborted = 2,
  kDouble = 7,
  kPlaces = 8,
};

// 1, 2, ...
inline HostTensor Numbers(int64_t count) {
  std::vector<double> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 1.0);
  return HostTensor::Of<double>({count}, numbers);
}

class FragmentsFixture : public SessionFixture {
 protected:
  static Fragment Source(const std::string& text, const std::string& name = "test.mlir") {
    return Unwrap(Fragment::Mlir(text, name));
  }
  CompiledFragment Compile() { return Unwrap(session_->Compile(Source("sum"))); }
  // Of the one result.
  DRef Execute(Asked asked, const FragmentInput& input, const FragmentOutput& output) {
    return Unwrap(session_->Execute(Source("sum"), {{int64_t{asked}}, input}, {output})).front();
  }
  static plan::Layout ByRows(const Shape& shape) {
    return Unwrap(plan::Layout::Make(shape, DType::kFloat64, Unwrap(plan::Mesh::Line({0, 1, 2, 3})),
                                     {plan::Placement::Shard(0)}));
  }
  std::vector<double> Collected(const DRef& ref) {
    return Unwrap(Unwrap(session_->Collect(ref)).Elements<double>());
  }
};

}  // namespace lockstep::testing
