#include "examples/digits/mlp.h"

#include <algorithm>
#include <cmath>

#include "examples/digits/random.h"

namespace lockstep::examples::digits {
namespace {

// What the backward pass needs of the forward pass.
struct Activations {
  std::array<double, kHidden> hidden;
  std::array<double, kClasses> probabilities;
};

// Inner loops run over a layer's outputs: they are contiguous in the weights, and vectorise.
Activations Forward(const uint8_t* image, const float* parameters) {
  Activations a;
  for (int j = 0; j < kHidden; ++j) a.hidden[j] = parameters[kHiddenBias + j];
  for (int i = 0; i < kPixels; ++i) {
    if (image[i] == 0) continue;  // half of the pixels are paper
    const double pixel = image[i] / static_cast<double>(kInk);
    const float* weights = parameters + kHiddenWeights + i * kHidden;
    for (int j = 0; j < kHidden; ++j) a.hidden[j] += pixel * weights[j];
  }
  for (double& h : a.hidden) h = std::max(h, 0.0);

  auto& z = a.probabilities;
  for (int k = 0; k < kClasses; ++k) z[k] = parameters[kOutputBias + k];
  for (int j = 0; j < kHidden; ++j) {
    const float* weights = parameters + kOutputWeights + j * kClasses;
    for (int k = 0; k < kClasses; ++k) z[k] += a.hidden[j] * weights[k];
  }
  // Softmax; without the largest, exp() could overflow.
  const double largest = *std::max_element(z.begin(), z.end());
  double sum = 0;
  for (double& value : z) sum += value = std::exp(value - largest);
  for (double& value : z) value /= sum;
  return a;
}

void AddGradientOfSample(const uint8_t* image, int label, const float* parameters,
                         double* gradient) {
  const Activations a = Forward(image, parameters);
  // A probability may underflow to 0; the loss stays finite.
  gradient[kLossSum] -= std::log(std::max(a.probabilities[label], 1e-300));
  gradient[kSampleCount] += 1;

  // d(loss)/d(output before softmax) = probability - (1 for the true class).
  std::array<double, kClasses> d_output = a.probabilities;
  d_output[label] -= 1;
  for (int k = 0; k < kClasses; ++k) gradient[kOutputBias + k] += d_output[k];

  std::array<double, kHidden> d_hidden;
  for (int j = 0; j < kHidden; ++j) {
    const float* weights = parameters + kOutputWeights + j * kClasses;
    double* d_weights = gradient + kOutputWeights + j * kClasses;
    double sum = 0;
    for (int k = 0; k < kClasses; ++k) {
      d_weights[k] += a.hidden[j] * d_output[k];
      sum += weights[k] * d_output[k];
    }
    d_hidden[j] = a.hidden[j] > 0 ? sum : 0;
  }
  for (int j = 0; j < kHidden; ++j) gradient[kHiddenBias + j] += d_hidden[j];
  for (int i = 0; i < kPixels; ++i) {
    if (image[i] == 0) continue;
    const double pixel = image[i] / static_cast<double>(kInk);
    double* d_weights = gradient + kHiddenWeights + i * kHidden;
    for (int j = 0; j < kHidden; ++j) d_weights[j] += pixel * d_hidden[j];
  }
}

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

std::array<double, kClasses> Predict(const uint8_t* image, const float* parameters) {
  return Forward(image, parameters).probabilities;
}

void Gradient(const Samples& samples, const int32_t* batch_of_row, int32_t batch,
              const float* parameters, double* gradient) {
  std::fill_n(gradient, kGradientSize, 0.0);
  for (int64_t row = 0; row < samples.count; ++row) {
    if (batch_of_row[row] != batch) continue;
    AddGradientOfSample(samples.images + row * kPixels, samples.labels[row], parameters, gradient);
  }
}

void Step(const double* gradient, double learning_rate, double momentum, float* parameters,
          float* velocity, double* totals) {
  const double scale = learning_rate / std::max(gradient[kSampleCount], 1.0);
  for (int i = 0; i < kParameters; ++i) {
    velocity[i] = static_cast<float>(momentum * velocity[i] - scale * gradient[i]);
    parameters[i] += velocity[i];
  }
  totals[0] += gradient[kLossSum];
  totals[1] += gradient[kSampleCount];
}

void Evaluate(const Samples& samples, const float* parameters, double* result) {
  int64_t correct = 0;
  for (int64_t row = 0; row < samples.count; ++row) {
    const auto probabilities = Predict(samples.images + row * kPixels, parameters);
    const auto best = std::max_element(probabilities.begin(), probabilities.end());
    correct += best - probabilities.begin() == samples.labels[row];
  }
  result[0] = static_cast<double>(correct);
  result[1] = static_cast<double>(samples.count);
}

}  // namespace lockstep::examples::digits
