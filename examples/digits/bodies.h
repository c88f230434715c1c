// The network's arithmetic, piece by piece for hosts and GPUs (runtime/base/kernel.h); how
// many pieces there are, pieces() says. Sums are made in the same order on both: losses differ
// where their exp() and log() do.
//
// All memory is borrowed. `images` is [count][kPixels]; a label above 9 makes the loss not a
// number.
#pragma once

#include <cmath>
#include <cstdint>

#include "examples/digits/mlp.h"
#include "runtime/base/kernel.h"

namespace lockstep::examples::digits {

// What a network makes of one image.
struct Activations {
  double hidden[kHidden];
  double probabilities[kClasses];
};

// Inner loops run over a layer's outputs: they are contiguous in the weights, and vectorise.
LOCKSTEP_HOST_DEVICE inline Activations Forward(const uint8_t* image, const float* parameters) {
  Activations a;
  for (int j = 0; j < kHidden; ++j) a.hidden[j] = parameters[kHiddenBias + j];
  for (int i = 0; i < kPixels; ++i) {
    if (image[i] == 0) continue;  // half of the pixels are paper
    const double pixel = image[i] / static_cast<double>(kInk);
    const float* weights = parameters + kHiddenWeights + i * kHidden;
    for (int j = 0; j < kHidden; ++j) a.hidden[j] += pixel * weights[j];
  }
  for (double& h : a.hidden) h = h > 0 ? h : 0.0;

  double* z = a.probabilities;
  for (int k = 0; k < kClasses; ++k) z[k] = parameters[kOutputBias + k];
  for (int j = 0; j < kHidden; ++j) {
    const float* weights = parameters + kOutputWeights + j * kClasses;
    for (int k = 0; k < kClasses; ++k) z[k] += a.hidden[j] * weights[k];
  }
  // Softmax; without the largest, exp() could overflow.
  double largest = z[0];
  for (int k = 1; k < kClasses; ++k) largest = z[k] > largest ? z[k] : largest;
  double sum = 0;
  for (int k = 0; k < kClasses; ++k) sum += z[k] = std::exp(z[k] - largest);
  for (int k = 0; k < kClasses; ++k) z[k] /= sum;
  return a;
}

// What one sample adds to the gradient: products of these.
struct Signals {
  double loss;
  double hidden[kHidden];
  double d_hidden[kHidden];
  double d_output[kClasses];
};

// rows[0], rows[1], ... are those whose `batch_of_row` is `batch`; listed[0] is how many they are.
// One piece.
struct ListBatch {
  static constexpr char kName[] = "digits_list_batch";
  const int32_t* batch_of_row;
  int64_t count;
  int32_t batch;
  int32_t* rows;  // [count]
  int32_t* listed;

  int64_t pieces() const { return 1; }
  LOCKSTEP_HOST_DEVICE void Run(int64_t first, int64_t) const {
    if (first != 0) return;
    int32_t found = 0;
    for (int64_t row = 0; row < count; ++row) {
      if (batch_of_row[row] == batch) rows[found++] = static_cast<int32_t>(row);
    }
    *listed = found;
  }
};

// The signals of the listed rows. A piece for every row there is, for a host does not know how many
// a GPU has listed.
struct Differentiate {
  static constexpr char kName[] = "digits_differentiate";
  const uint8_t* images;
  const uint8_t* labels;
  int64_t count;
  const int32_t* rows;
  const int32_t* listed;
  const float* parameters;
  Signals* signals;  // [count]

  int64_t pieces() const { return count; }
  LOCKSTEP_HOST_DEVICE void Run(int64_t first, int64_t step) const {
    for (int64_t at = first; at < *listed; at += step) {
      signals[at] = SignalsOf(images + int64_t{rows[at]} * kPixels, labels[rows[at]]);
    }
  }
  LOCKSTEP_HOST_DEVICE Signals SignalsOf(const uint8_t* image, int label) const {
    const Activations a = Forward(image, parameters);
    Signals s;
    // The loss is the cross entropy. A probability may underflow to 0; the loss stays finite.
    const double sure = label < kClasses ? a.probabilities[label] : NAN;
    s.loss = -std::log(sure < 1e-300 ? 1e-300 : sure);
    // d(loss)/d(output before softmax) = probability - (1 for the true class).
    for (int k = 0; k < kClasses; ++k) s.d_output[k] = a.probabilities[k] - (k == label ? 1 : 0);
    for (int j = 0; j < kHidden; ++j) {
      const float* weights = parameters + kOutputWeights + j * kClasses;
      double sum = 0;
      for (int k = 0; k < kClasses; ++k) sum += weights[k] * s.d_output[k];
      s.hidden[j] = a.hidden[j];
      s.d_hidden[j] = a.hidden[j] > 0 ? sum : 0;
    }
    return s;
  }
};

// Sets `gradient` [kGradientSize] to the sums over the listed rows. A piece for the weights of each
// pixel, one for those of each hidden unit, and one for all else.
struct SumGradient {
  static constexpr char kName[] = "digits_sum_gradient";
  const uint8_t* images;
  const int32_t* rows;
  const int32_t* listed;
  const Signals* signals;
  double* gradient;

  int64_t pieces() const { return kPieces; }
  LOCKSTEP_HOST_DEVICE void Run(int64_t first, int64_t step) const {
    for (int64_t piece = first; piece < kPieces; piece += step) {
      if (piece < kPixels) {
        SumOfPixel(static_cast<int>(piece));
      } else if (piece < kPixels + kHidden) {
        SumOfUnit(static_cast<int>(piece) - kPixels);
      } else {
        SumOfRest();
      }
    }
  }

  static constexpr int64_t kPieces = kPixels + kHidden + 1;
  LOCKSTEP_HOST_DEVICE void SumOfPixel(int i) const {
    double* sums = gradient + kHiddenWeights + i * kHidden;
    for (int j = 0; j < kHidden; ++j) sums[j] = 0;
    for (int32_t at = 0; at < *listed; ++at) {
      const uint8_t ink = images[int64_t{rows[at]} * kPixels + i];
      if (ink == 0) continue;
      const double pixel = ink / static_cast<double>(kInk);
      for (int j = 0; j < kHidden; ++j) sums[j] += pixel * signals[at].d_hidden[j];
    }
  }
  LOCKSTEP_HOST_DEVICE void SumOfUnit(int j) const {
    double* sums = gradient + kOutputWeights + j * kClasses;
    for (int k = 0; k < kClasses; ++k) sums[k] = 0;
    for (int32_t at = 0; at < *listed; ++at) {
      for (int k = 0; k < kClasses; ++k) {
        sums[k] += signals[at].hidden[j] * signals[at].d_output[k];
      }
    }
  }
  LOCKSTEP_HOST_DEVICE void SumOfRest() const {
    for (int j = 0; j < kHidden; ++j) gradient[kHiddenBias + j] = 0;
    for (int k = 0; k < kClasses; ++k) gradient[kOutputBias + k] = 0;
    double loss = 0;
    for (int32_t at = 0; at < *listed; ++at) {
      const Signals& s = signals[at];
      for (int j = 0; j < kHidden; ++j) gradient[kHiddenBias + j] += s.d_hidden[j];
      for (int k = 0; k < kClasses; ++k) gradient[kOutputBias + k] += s.d_output[k];
      loss += s.loss;
    }
    gradient[kLossSum] = loss;
    gradient[kSampleCount] = *listed;
  }
};

// One step of gradient descent with momentum: `gradient` holds sums over the whole batch. Adds the
// batch's loss and number of samples to totals[0] and totals[1].
struct Step {
  static constexpr char kName[] = "digits_step";
  const double* gradient;
  double learning_rate;
  double momentum;
  float* parameters;
  float* velocity;
  double* totals;

  int64_t pieces() const { return kParameters; }
  LOCKSTEP_HOST_DEVICE void Run(int64_t first, int64_t step) const {
    const double samples = gradient[kSampleCount];
    const double scale = learning_rate / (samples > 1 ? samples : 1);
    for (int64_t i = first; i < kParameters; i += step) {
      velocity[i] = static_cast<float>(momentum * velocity[i] - scale * gradient[i]);
      parameters[i] += velocity[i];
    }
    if (first != 0) return;
    totals[0] += gradient[kLossSum];
    totals[1] += samples;
  }
};

// is_right[row] = 1 where the likeliest class is the label, else 0. A piece for each sample.
struct Classify {
  static constexpr char kName[] = "digits_classify";
  const uint8_t* images;
  const uint8_t* labels;
  int64_t count;
  const float* parameters;
  uint8_t* is_right;  // [count]

  int64_t pieces() const { return count; }
  LOCKSTEP_HOST_DEVICE void Run(int64_t first, int64_t step) const {
    for (int64_t row = first; row < count; row += step) {
      const Activations a = Forward(images + row * kPixels, parameters);
      int best = 0;
      for (int k = 1; k < kClasses; ++k) {
        if (a.probabilities[k] > a.probabilities[best]) best = k;
      }
      is_right[row] = best == labels[row] ? 1 : 0;
    }
  }
};

// result[0] = how many are right, result[1] = of how many. One piece.
struct CountRight {
  static constexpr char kName[] = "digits_count_right";
  const uint8_t* is_right;
  int64_t count;
  double* result;

  int64_t pieces() const { return 1; }
  LOCKSTEP_HOST_DEVICE void Run(int64_t first, int64_t) const {
    if (first != 0) return;
    int64_t right = 0;
    for (int64_t row = 0; row < count; ++row) right += is_right[row];
    result[0] = static_cast<double>(right);
    result[1] = static_cast<double>(count);
  }
};

}  // namespace lockstep::examples::digits
