#include "examples/digits/mlp.h"

#include <cmath>

#include "examples/digits/random.h"

namespace lockstep::examples::digits {
namespace {

void FillUniform(Random& random, double limit, float* begin, int count) {
  for (int i = 0; i < count; ++i) {
    begin[i] = static_cast<float>((2 * random.Uniform() - 1) * limit);
  }
}

}  // namespace

std::vector<float> InitialParameters(uint64_t seed) {
  std::vector<float> parameters(kParameters, 0.0f);
  Random random(seed);
  FillUniform(random, std::sqrt(6.0 / kPixels), &parameters[kHiddenWeights], kPixels * kHidden);
  FillUniform(random, std::sqrt(6.0 / kHidden), &parameters[kOutputWeights], kHidden * kClasses);
  return parameters;
}

}  // namespace lockstep::examples::digits
