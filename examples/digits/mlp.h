// A network with one hidden layer, 64 pixels -> 64 ReLU -> 10 softmax: how its parameters and their
// gradient are laid out. bodies.h computes with them.
//
// Parameters are one f32 array, so that one collective moves them all: weights of the hidden layer
// [kPixels][kHidden], its bias, weights of the output layer [kHidden][kClasses], its bias.
//
// Everything that is summed over samples is summed in double and divided by the number of samples
// only at the end. How samples are dealt out over workers then changes the last bits of a double,
// and a loss curve does not depend on the number of workers.
#pragma once

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

// He's initialisation, uniform; biases are 0. The same on every machine for the same seed.
std::vector<float> InitialParameters(uint64_t seed);

}  // namespace lockstep::examples::digits
