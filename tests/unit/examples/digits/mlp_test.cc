#include "examples/digits/mlp.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "examples/digits/random.h"
#include "gtest/gtest.h"

namespace lockstep::examples::digits {
namespace {

// Samples with random images and labels, all in batch 0.
struct RandomSamples {
  explicit RandomSamples(int64_t count, uint64_t seed = 7) {
    Random random(seed);
    for (int64_t i = 0; i < count * kPixels; ++i) {
      images.push_back(static_cast<uint8_t>(random.Below(kInk + 1)));
    }
    for (int64_t i = 0; i < count; ++i) {
      labels.push_back(static_cast<uint8_t>(random.Below(kClasses)));
    }
    batch_of_row.assign(labels.size(), 0);
  }
  Samples view() const {
    return {images.data(), labels.data(), static_cast<int64_t>(labels.size())};
  }
  // Those from `begin` on.
  Samples view(int64_t begin, int64_t count) const {
    return {&images[begin * kPixels], &labels[begin], count};
  }

  std::vector<uint8_t> images;
  std::vector<uint8_t> labels;
  std::vector<int32_t> batch_of_row;
};

std::vector<double> GradientOf(const RandomSamples& samples, const std::vector<float>& parameters) {
  std::vector<double> gradient(kGradientSize, -1.0);
  Gradient(samples.view(), samples.batch_of_row.data(), 0, parameters.data(), gradient.data());
  return gradient;
}

TEST(MlpTest, GradientAgreesWithFiniteDifferencesOfTheLoss) {
  const RandomSamples samples(3);
  std::vector<float> parameters = InitialParameters(1);
  const std::vector<double> gradient = GradientOf(samples, parameters);
  int nonzero = 0;
  for (int i = 0; i < kParameters; ++i) {
    const float original = parameters[i];
    parameters[i] = original + 1e-3f;
    const double above = parameters[i];
    const double loss_above = GradientOf(samples, parameters)[kLossSum];
    parameters[i] = original - 1e-3f;
    const double below = parameters[i];
    const double loss_below = GradientOf(samples, parameters)[kLossSum];
    parameters[i] = original;

    const double slope = (loss_above - loss_below) / (above - below);
    ASSERT_NEAR(gradient[i], slope, 1e-4 * std::max(1.0, std::fabs(slope))) << "parameter " << i;
    nonzero += std::fabs(slope) > 1e-3;
  }
  // Three samples leave few hidden units silent: the comparison above was not of zeros.
  EXPECT_GT(nonzero, kParameters / 2);
}

TEST(MlpTest, LossOfAnUntrainedUniformNetworkIsLogOfTheClasses) {
  const RandomSamples samples(5);
  const std::vector<double> gradient = GradientOf(samples, std::vector<float>(kParameters, 0.0f));
  EXPECT_NEAR(gradient[kLossSum], 5 * std::log(kClasses), 1e-12);
  EXPECT_EQ(gradient[kSampleCount], 5);
}

TEST(MlpTest, GradientsOfPartsAddUpToTheGradientOfAll) {
  const RandomSamples samples(11);
  const std::vector<float> parameters = InitialParameters(2);
  const std::vector<double> whole = GradientOf(samples, parameters);
  std::vector<double> first(kGradientSize), rest(kGradientSize);
  Gradient(samples.view(0, 4), samples.batch_of_row.data(), 0, parameters.data(), first.data());
  Gradient(samples.view(4, 7), samples.batch_of_row.data(), 0, parameters.data(), rest.data());
  for (int i = 0; i < kGradientSize; ++i) ASSERT_NEAR(whole[i], first[i] + rest[i], 1e-12);
}

TEST(MlpTest, GradientTakesOnlyTheSamplesOfItsBatch) {
  RandomSamples samples(6);
  samples.batch_of_row = {0, 1, 0, 1, 2, 1};
  const std::vector<float> parameters = InitialParameters(3);
  std::vector<double> gradient(kGradientSize);
  Gradient(samples.view(), samples.batch_of_row.data(), 1, parameters.data(), gradient.data());
  EXPECT_EQ(gradient[kSampleCount], 3);
  Gradient(samples.view(), samples.batch_of_row.data(), 3, parameters.data(), gradient.data());
  EXPECT_EQ(gradient, std::vector<double>(kGradientSize, 0.0));
}

TEST(MlpTest, NoSamplesAreNoGradient) {
  const std::vector<float> parameters = InitialParameters(3);
  std::vector<double> gradient(kGradientSize, 1.0);
  Gradient(Samples{}, nullptr, 0, parameters.data(), gradient.data());
  EXPECT_EQ(gradient, std::vector<double>(kGradientSize, 0.0));
}

TEST(MlpTest, StepDividesByTheSamplesAndKeepsMomentum) {
  std::vector<double> gradient(kGradientSize, 6.0);
  gradient[kLossSum] = 10;
  gradient[kSampleCount] = 4;
  std::vector<float> parameters(kParameters, 1.0f), velocity(kParameters, 2.0f);
  std::vector<double> totals = {100, 1000};
  Step(gradient.data(), 0.5, 0.25, parameters.data(), velocity.data(), totals.data());
  EXPECT_EQ(velocity, std::vector<float>(kParameters, 0.25f * 2 - 0.5f * 6 / 4));
  EXPECT_EQ(parameters, std::vector<float>(kParameters, 1 + 0.5f - 0.75f));
  EXPECT_EQ(totals, (std::vector<double>{110, 1004}));
}

TEST(MlpTest, TrainingOnAFewSamplesLearnsThemByHeart) {
  const RandomSamples samples(8);
  std::vector<float> parameters = InitialParameters(4), velocity(kParameters, 0.0f);
  std::vector<double> totals(2);
  for (int i = 0; i < 200; ++i) {
    const std::vector<double> gradient = GradientOf(samples, parameters);
    Step(gradient.data(), 0.1, 0.9, parameters.data(), velocity.data(), totals.data());
  }
  EXPECT_LT(GradientOf(samples, parameters)[kLossSum] / 8, 0.01);
  double result[2];
  Evaluate(samples.view(), parameters.data(), result);
  EXPECT_EQ(result[0], 8);
  EXPECT_EQ(result[1], 8);
}

TEST(MlpTest, ProbabilitiesStayFiniteForExtremeParameters) {
  const RandomSamples samples(1);
  std::vector<float> parameters(kParameters, 0.0f);
  parameters[kOutputBias] = 1e30f;
  const auto probabilities = Predict(samples.images.data(), parameters.data());
  EXPECT_EQ(probabilities[0], 1.0);
  EXPECT_EQ(std::accumulate(probabilities.begin(), probabilities.end(), 0.0), 1.0);
  for (const double value : GradientOf(samples, parameters)) ASSERT_TRUE(std::isfinite(value));
}

TEST(MlpTest, InitialParametersDependOnTheSeedAlone) {
  EXPECT_EQ(InitialParameters(5), InitialParameters(5));
  EXPECT_NE(InitialParameters(5), InitialParameters(6));
}

}  // namespace
}  // namespace lockstep::examples::digits
