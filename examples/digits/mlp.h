// A network with one hidden layer, 64 pixels -> 64 ReLU -> 10 softmax: its loss and its gradient.
//
// Parameters are one f32 array, so that one collective moves them all: weights of the hidden layer
// [kPixels][kHidden], its bias, weights of the output layer [kHidden][kClasses], its bias.
//
// Everything that is summed over samples is summed in double and divided by the number of samples
// only at the end. How samples are dealt out over workers then changes the last bits of a double,
// and a loss curve does not depend on the number of workers.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace lockstep::examples::digits {

inline constexpr int kPixels = 64;
inline constexpr int kHidden = 64;
inline constexpr int kClasses = 10;
// A pixel's value is 0 to kInk.
inline constexpr int kInk = 16;

// Offsets into the parameters.
inline constexpr int kHiddenWeights = 0;
inline constexpr int kHiddenBias = kHiddenWeights + kPixels * kHidden;
inline constexpr int kOutputWeights = kHiddenBias + kHidden;
inline constexpr int kOutputBias = kOutputWeights + kHidden * kClasses;
inline constexpr int kParameters = kOutputBias + kClasses;

// A gradient is an f64 array: a sum over samples for each parameter, then the sum of their losses,
// then their number.
inline constexpr int kLossSum = kParameters;
inline constexpr int kSampleCount = kParameters + 1;
inline constexpr int kGradientSize = kParameters + 2;

// Borrowed: `images` is [count][kPixels], every label is below kClasses.
struct Samples {
  const uint8_t* images = nullptr;
  const uint8_t* labels = nullptr;
  int64_t count = 0;
};

// He's initialisation, uniform; biases are 0. The same on every machine for the same seed.
std::vector<float> InitialParameters(uint64_t seed);

// Probabilities of the classes for one image [kPixels].
std::array<double, kClasses> Predict(const uint8_t* image, const float* parameters);

// Sets `gradient` [kGradientSize] to the sums over those samples whose `batch_of_row` is `batch`.
// The loss is the cross entropy.
void Gradient(const Samples& samples, const int32_t* batch_of_row, int32_t batch,
              const float* parameters, double* gradient);

// One step of gradient descent with momentum: `gradient` holds sums over the whole batch. Adds the
// batch's loss and number of samples to totals[0] and totals[1].
void Step(const double* gradient, double learning_rate, double momentum, float* parameters,
          float* velocity, double* totals);

// Sets result[0] to the number of samples that are classified correctly, result[1] to their number.
void Evaluate(const Samples& samples, const float* parameters, double* result);

}  // namespace lockstep::examples::digits
