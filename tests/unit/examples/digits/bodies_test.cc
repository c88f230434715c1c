#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "examples/digits/random.h"
#include "gtest/gtest.h"
#include "tests/unit/examples/digits/on_host.h"

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

std::vector<double> GradientOf(const RandomSamples& samples, const std::vector<float>& parameters,
                               int64_t threads = 1) {
  return GradientOf(samples.view(), samples.batch_of_row, 0, parameters, threads);
}

TEST(BodiesTest, GradientAgreesWithFiniteDifferencesOfTheLoss) {
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

TEST(BodiesTest, LossOfAnUntrainedUniformNetworkIsLogOfTheClasses) {
  const RandomSamples samples(5);
  const std::vector<double> gradient = GradientOf(samples, std::vector<float>(kParameters, 0.0f));
  EXPECT_NEAR(gradient[kLossSum], 5 * std::log(kClasses), 1e-12);
  EXPECT_EQ(gradient[kSampleCount], 5);
}

TEST(BodiesTest, GradientsOfPartsAddUpToTheGradientOfAll) {
  const RandomSamples samples(11);
  const std::vector<float> parameters = InitialParameters(2);
  const std::vector<double> whole = GradientOf(samples, parameters);
  const auto first = GradientOf(samples.view(0, 4), samples.batch_of_row, 0, parameters);
  const auto rest = GradientOf(samples.view(4, 7), samples.batch_of_row, 0, parameters);
  for (int i = 0; i < kGradientSize; ++i) ASSERT_NEAR(whole[i], first[i] + rest[i], 1e-12);
}

TEST(BodiesTest, GradientTakesOnlyTheSamplesOfItsBatch) {
  RandomSamples samples(6);
  samples.batch_of_row = {0, 1, 0, 1, 2, 1};
  const std::vector<float> parameters = InitialParameters(3);
  const auto of_batch = [&](int32_t batch) {
    return GradientOf(samples.view(), samples.batch_of_row, batch, parameters);
  };
  EXPECT_EQ(of_batch(1)[kSampleCount], 3);
  EXPECT_EQ(of_batch(3), std::vector<double>(kGradientSize, 0.0));
}

TEST(BodiesTest, NoSamplesAreNoGradient) {
  const std::vector<float> parameters = InitialParameters(3);
  EXPECT_EQ(GradientOf(Samples{}, {}, 0, parameters), std::vector<double>(kGradientSize, 0.0));
}

TEST(BodiesTest, StepDividesByTheSamplesAndKeepsMomentum) {
  std::vector<double> gradient(kGradientSize, 6.0);
  gradient[kLossSum] = 10;
  gradient[kSampleCount] = 4;
  std::vector<float> parameters(kParameters, 1.0f), velocity(kParameters, 2.0f);
  std::vector<double> totals = {100, 1000};
  StepBy(gradient, 0.5, 0.25, parameters, velocity, totals);
  EXPECT_EQ(velocity, std::vector<float>(kParameters, 0.25f * 2 - 0.5f * 6 / 4));
  EXPECT_EQ(parameters, std::vector<float>(kParameters, 1 + 0.5f - 0.75f));
  EXPECT_EQ(totals, (std::vector<double>{110, 1004}));
}

TEST(BodiesTest, TrainingOnAFewSamplesLearnsThemByHeart) {
  const RandomSamples samples(8);
  std::vector<float> parameters = InitialParameters(4), velocity(kParameters, 0.0f);
  std::vector<double> totals(2);
  for (int i = 0; i < 200; ++i) {
    const std::vector<double> gradient = GradientOf(samples, parameters);
    StepBy(gradient, 0.1, 0.9, parameters, velocity, totals);
  }
  EXPECT_LT(GradientOf(samples, parameters)[kLossSum] / 8, 0.01);
  EXPECT_EQ(EvaluateOf(samples.view(), parameters), (std::vector<double>{8, 8}));
}

TEST(BodiesTest, ProbabilitiesStayFiniteForExtremeParameters) {
  const RandomSamples samples(1);
  std::vector<float> parameters(kParameters, 0.0f);
  parameters[kOutputBias] = 1e30f;
  const Activations a = Forward(samples.images.data(), parameters.data());
  EXPECT_EQ(a.probabilities[0], 1.0);
  EXPECT_EQ(std::accumulate(a.probabilities, a.probabilities + kClasses, 0.0), 1.0);
  for (const double value : GradientOf(samples, parameters)) ASSERT_TRUE(std::isfinite(value));
}

TEST(BodiesTest, AnyNumberOfThreadsMakesTheSameBits) {
  const RandomSamples samples(20);
  const std::vector<float> parameters = InitialParameters(6);
  const std::vector<double> one = GradientOf(samples, parameters);
  for (const int64_t threads : {3, 129, 1000}) {
    EXPECT_EQ(GradientOf(samples, parameters, threads), one) << threads << " threads";
  }
}

TEST(BodiesTest, ALabelThatIsNoneMakesTheLossNotANumber) {
  RandomSamples samples(4);
  samples.labels[2] = kClasses;
  const std::vector<double> gradient = GradientOf(samples, InitialParameters(1));
  EXPECT_TRUE(std::isnan(gradient[kLossSum]));
}

TEST(BodiesTest, InitialParametersDependOnTheSeedAlone) {
  EXPECT_EQ(InitialParameters(5), InitialParameters(5));
  EXPECT_NE(InitialParameters(5), InitialParameters(6));
}

}  // namespace
}  // namespace lockstep::examples::digits
