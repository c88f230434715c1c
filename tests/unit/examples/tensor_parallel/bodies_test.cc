#include "examples/tensor_parallel/bodies.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::examples::tensor_parallel {
namespace {

std::vector<float> RandomVector(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 1e-5 * std::max(1.0, std::fabs(expected[i]))) << "at " << i;
  }
}

TEST(BodiesTest, LayerNormHasMeanOfBiasAndDeviationOfGain) {
  const int64_t width = 100;
  const auto x = RandomVector(3 * width, 1);
  const std::vector<float> gain(width, 2.0f), bias(width, 0.5f);
  std::vector<float> out(x.size());
  LayerNorm{x.data(), gain.data(), bias.data(), 3, width, out.data()}.Run(0, 1);
  for (int t = 0; t < 3; ++t) {
    double sum = 0, squares = 0;
    for (int i = 0; i < width; ++i) sum += out[t * width + i];
    for (int i = 0; i < width; ++i) squares += std::pow(out[t * width + i] - 0.5, 2);
    EXPECT_NEAR(sum / width, 0.5, 1e-5);
    EXPECT_NEAR(squares / width, 4.0, 1e-3);
  }
}

TEST(BodiesTest, LayerNormOfEqualElementsIsTheBias) {
  const std::vector<float> x(8, 3.0f), gain(8, 2.0f), bias(8, 0.25f);
  std::vector<float> out(8);
  LayerNorm{x.data(), gain.data(), bias.data(), 1, 8, out.data()}.Run(0, 1);
  EXPECT_EQ(out, bias);
}

// Sizes around the width of the vectorised loop.
TEST(BodiesTest, ProjectionsMatchTheirDefinitions) {
  for (const int64_t inputs : {1, 7, 8, 9, 33}) {
    const int64_t tokens = 3, outputs = 5;
    const auto x = RandomVector(tokens * inputs, 2);
    const auto weights = RandomVector(outputs * inputs, 3);
    const auto bias = RandomVector(outputs, 4);
    std::vector<float> to_part(tokens * outputs), from_part(tokens * outputs);
    ProjectToPart{x.data(), weights.data(), bias.data(), tokens, inputs, outputs, to_part.data()}
        .Run(0, 1);
    ProjectFromPart{x.data(), weights.data(), tokens, inputs, outputs, from_part.data()}.Run(0, 1);

    std::vector<double> expected_to(tokens * outputs), expected_from(tokens * outputs);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t o = 0; o < outputs; ++o) {
        expected_to[t * outputs + o] = bias[o];
        for (int64_t i = 0; i < inputs; ++i) {
          const double factor = x[t * inputs + i];
          expected_to[t * outputs + o] += factor * weights[o * inputs + i];
          expected_from[t * outputs + o] += factor * weights[i * outputs + o];
        }
      }
    }
    ExpectNear(to_part, expected_to);
    ExpectNear(from_part, expected_from);
  }
}

TEST(BodiesTest, ASummandOfNoInputsIsZero) {
  std::vector<float> out(4, 7.0f);
  ProjectFromPart{nullptr, nullptr, 2, 0, 2, out.data()}.Run(0, 1);
  EXPECT_EQ(out, std::vector<float>(4, 0.0f));
}

struct AttentionCase {
  int64_t batch = 2, sequence = 5, heads = 3, head_dim = 4;
  int64_t tokens() const { return batch * sequence; }
  std::vector<float> Run(const std::vector<float>& qkv) const {
    std::vector<float> out(tokens() * heads * head_dim);
    std::vector<double> scratch(sequence);
    Attention{qkv.data(), tokens(), sequence, heads, head_dim, scratch.data(), out.data()}.Run(0,
                                                                                               1);
    return out;
  }
};

TEST(BodiesTest, AttentionMatchesItsDefinition) {
  const AttentionCase c;
  const auto qkv = RandomVector(c.tokens() * c.heads * 3 * c.head_dim, 5);
  const auto at = [&](int64_t token, int64_t head, int64_t which, int64_t i) -> double {
    return qkv[((token * c.heads + head) * 3 + which) * c.head_dim + i];
  };
  std::vector<double> expected;
  for (int64_t t = 0; t < c.tokens(); ++t) {
    for (int64_t h = 0; h < c.heads; ++h) {
      std::vector<double> mixed(c.head_dim);
      double sum = 0;
      for (int64_t j = t / c.sequence * c.sequence; j <= t; ++j) {
        double score = 0;
        for (int64_t i = 0; i < c.head_dim; ++i) score += at(t, h, 0, i) * at(j, h, 1, i);
        const double weight = std::exp(score / std::sqrt(c.head_dim));
        sum += weight;
        for (int64_t i = 0; i < c.head_dim; ++i) mixed[i] += weight * at(j, h, 2, i);
      }
      for (const double value : mixed) expected.push_back(value / sum);
    }
  }
  ExpectNear(c.Run(qkv), expected);
}

TEST(BodiesTest, AttentionSeesNothingLaterAndNoOtherSequence) {
  const AttentionCase c;
  auto qkv = RandomVector(c.tokens() * c.heads * 3 * c.head_dim, 6);
  const auto before = c.Run(qkv);
  // Token 3 of the first sequence changes.
  const int64_t row = c.heads * 3 * c.head_dim;
  for (int64_t i = 0; i < row; ++i) qkv[3 * row + i] += 1;
  const auto after = c.Run(qkv);
  const int64_t width = c.heads * c.head_dim;
  for (int64_t t = 0; t < c.tokens(); ++t) {
    const bool same = std::equal(&before[t * width], &before[t * width] + width, &after[t * width]);
    EXPECT_EQ(same, t != 3 && t != 4) << "token " << t;
  }
}

TEST(BodiesTest, GeluAtKnownPoints) {
  const std::vector<float> x = {0, 1, -1, 10, -10};
  std::vector<float> out(x.size());
  Gelu{x.data(), static_cast<int64_t>(x.size()), out.data()}.Run(0, 1);
  ExpectNear(out, {0, 0.8413447461, -0.1586552539, 10, 0});
}

TEST(BodiesTest, AddBiasAndResidualAddsAllThree) {
  const std::vector<float> x = {1, 2, 3, 4}, bias = {10, 20}, residual = {100, 200, 300, 400};
  std::vector<float> out(4);
  AddBiasAndResidual{x.data(), bias.data(), residual.data(), 2, 2, out.data()}.Run(0, 1);
  EXPECT_EQ(out, (std::vector<float>{111, 222, 313, 424}));
}

float LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  float largest = -1;
  MaxAbsDifference{a.data(), b.data(), static_cast<int64_t>(a.size()), &largest}.Run(0, 1);
  return largest;
}

TEST(BodiesTest, MaxAbsDifferenceFindsTheLargestAndKeepsNotANumber) {
  const std::vector<float> a = {1, 2, 3}, b = {1, 4, 2.5};
  EXPECT_EQ(LargestDifference(a, b), 2.0f);
  EXPECT_EQ(LargestDifference(a, a), 0.0f);
  EXPECT_EQ(LargestDifference({}, {}), 0.0f);
  const std::vector<float> broken = {1, std::numeric_limits<float>::quiet_NaN(), 9};
  EXPECT_TRUE(std::isnan(LargestDifference(a, broken)));
}

// As a GPU does it: by many threads, each with a part.
template <typename Body>
void RunByThreads(const Body& body, int64_t threads) {
  for (int64_t thread = threads - 1; thread >= 0; --thread) body.Run(thread, threads);
}

TEST(BodiesTest, AnyNumberOfThreadsMakesTheSameBits) {
  const int64_t tokens = 10, inputs = 7, outputs = 37;
  const auto x = RandomVector(tokens * inputs, 7);
  const auto weights = RandomVector(outputs * inputs, 8);
  const auto bias = RandomVector(outputs, 9);
  const auto expect_same = [&](auto body, int64_t size) {
    std::vector<float> one(static_cast<size_t>(size), -1), many(static_cast<size_t>(size), -2);
    body.out = one.data();
    body.Run(0, 1);
    body.out = many.data();
    for (const int64_t threads : {int64_t{3}, body.pieces(), body.pieces() + 5}) {
      RunByThreads(body, threads);
      EXPECT_EQ(one, many) << body.kName << " by " << threads;
    }
  };
  const int64_t size = tokens * outputs;
  expect_same(LayerNorm{x.data(), x.data(), bias.data(), tokens, inputs, nullptr}, tokens * inputs);
  expect_same(
      ProjectToPart{x.data(), weights.data(), bias.data(), tokens, inputs, outputs, nullptr}, size);
  expect_same(ProjectFromPart{x.data(), weights.data(), tokens, inputs, outputs, nullptr}, size);
  expect_same(Gelu{x.data(), tokens * inputs, nullptr}, tokens * inputs);
  expect_same(AddBiasAndResidual{x.data(), bias.data(), x.data(), tokens, inputs, nullptr},
              tokens * inputs);
  expect_same(MaxAbsDifference{x.data(), bias.data(), outputs, nullptr}, 1);

  const AttentionCase c;
  const auto qkv = RandomVector(c.tokens() * c.heads * 3 * c.head_dim, 5);
  const int64_t turns = c.tokens() * c.heads;
  std::vector<double> scratch(static_cast<size_t>(turns * c.sequence));
  expect_same(
      Attention{qkv.data(), c.tokens(), c.sequence, c.heads, c.head_dim, scratch.data(), nullptr},
      turns * c.head_dim);
}

}  // namespace
}  // namespace lockstep::examples::tensor_parallel
