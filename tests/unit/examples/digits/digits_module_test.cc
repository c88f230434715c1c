// The module behind its ABI: that arguments arrive where they belong, and that wrong ones are
// refused.
#include <cstdint>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/examples/digits/on_host.h"
#include "tests/unit/examples/support/loaded_module.h"

namespace lockstep::examples::digits {
namespace {

using ::testing::HasSubstr;

class DigitsModuleTest : public testing::Test {
 protected:
  static constexpr int64_t kRows = 5;

  DigitsModuleTest() : module_("examples/digits/digits_module.so") {
    images_.resize(kRows * kPixels);
    std::iota(images_.begin(), images_.end(), 0);
    for (uint8_t& pixel : images_) pixel %= kInk + 1;
  }

  tensor::Tensor Images() const { return module_.MakeTensor<uint8_t>({kRows, kPixels}, images_); }
  tensor::Tensor Labels() const { return module_.MakeTensor<uint8_t>({kRows}, labels_); }
  tensor::Tensor Batches() const { return module_.MakeTensor<int32_t>({kRows}, batches_); }
  tensor::Tensor Parameters() const {
    return module_.MakeTensor<float>({kParameters}, InitialParameters(1));
  }
  Samples samples() const { return {images_.data(), labels_.data(), kRows}; }

  const LoadedModule module_;
  std::vector<uint8_t> images_;
  std::vector<uint8_t> labels_ = {0, 9, 3, 3, 1};
  const std::vector<int32_t> batches_ = {0, 1, 1, 0, 1};
};

TEST_F(DigitsModuleTest, DealBatchesGivesTheBatchOfEachSample) {
  const std::vector<int32_t> ids = {7, 8, 9};
  const std::vector<int32_t> expected = DealBatchesOf(ids, 20, 4, 11, 2);
  const auto ids_tensor = module_.MakeTensor<int32_t>({3}, ids);
  EXPECT_EQ(Elements<int32_t>(module_.Call(
                "deal_batches", {ids_tensor, int64_t{20}, int64_t{4}, int64_t{11}, int64_t{2}})),
            expected);
}

TEST_F(DigitsModuleTest, GradientIsThatOfTheBatch) {
  const std::vector<double> expected = GradientOf(samples(), batches_, 1, InitialParameters(1));
  EXPECT_EQ(Elements<double>(module_.Call(
                "gradient", {Images(), Labels(), Batches(), int64_t{1}, Parameters()})),
            expected);
}

TEST_F(DigitsModuleTest, StepChangesParametersVelocityAndTotals) {
  const std::vector<double> gradient(kGradientSize, 2.0);
  std::vector<float> parameters = InitialParameters(1), velocity(kParameters, 1.0f);
  std::vector<double> totals = {1, 2};
  const auto gradient_tensor = module_.MakeTensor<double>({kGradientSize}, gradient);
  const auto parameters_tensor = module_.MakeTensor<float>({kParameters}, parameters);
  const auto velocity_tensor = module_.MakeTensor<float>({kParameters}, velocity);
  const auto totals_tensor = module_.MakeTensor<double>({2}, totals);
  ASSERT_TRUE(module_
                  .Call("step", {gradient_tensor, 0.1, 0.9, parameters_tensor, velocity_tensor,
                                 totals_tensor})
                  .ok());
  StepBy(gradient, 0.1, 0.9, parameters, velocity, totals);
  EXPECT_EQ(Elements<float>(registers::Value(parameters_tensor)), parameters);
  EXPECT_EQ(Elements<float>(registers::Value(velocity_tensor)), velocity);
  EXPECT_EQ(Elements<double>(registers::Value(totals_tensor)), totals);
}

TEST_F(DigitsModuleTest, EvaluateCountsCorrectAnswers) {
  EXPECT_EQ(Elements<double>(module_.Call("evaluate", {Images(), Labels(), Parameters()})),
            EvaluateOf(samples(), InitialParameters(1)));
}

TEST_F(DigitsModuleTest, ShardsWithoutSamplesWork) {
  const auto images = module_.MakeTensor<uint8_t>({0, kPixels}, {});
  const auto labels = module_.MakeTensor<uint8_t>({0}, {});
  const auto batches = module_.MakeTensor<int32_t>({0}, {});
  EXPECT_EQ(Elements<double>(
                module_.Call("gradient", {images, labels, batches, int64_t{0}, Parameters()})),
            std::vector<double>(kGradientSize, 0.0));
  EXPECT_EQ(Elements<double>(module_.Call("evaluate", {images, labels, Parameters()})),
            (std::vector<double>{0, 0}));
}

TEST_F(DigitsModuleTest, WrongArgumentsAreRefused) {
  const auto refused = [&](const char* name, const std::vector<registers::Value>& args) {
    const Status status = module_.Call(name, args).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    return Message(status);
  };
  EXPECT_THAT(refused("gradient", {Images()}), HasSubstr("expected 5 arguments, got 1"));
  EXPECT_THAT(refused("gradient", {Labels(), Labels(), Batches(), int64_t{0}, Parameters()}),
              HasSubstr("argument 1 (images) has the wrong shape"));
  const auto few_labels = module_.MakeTensor<uint8_t>({2}, {1, 2});
  EXPECT_THAT(refused("evaluate", {Images(), few_labels, Parameters()}),
              HasSubstr("argument 2 (labels) has the wrong shape: expected [5], got [2]"));
  const auto ids = module_.MakeTensor<int32_t>({2}, {3, 4});
  EXPECT_THAT(refused("deal_batches", {ids, int64_t{4}, int64_t{2}, int64_t{1}, int64_t{0}}),
              HasSubstr("argument 1 (ids) has one beyond the total"));
  EXPECT_THAT(refused("deal_batches", {ids, int64_t{5}, int64_t{0}, int64_t{1}, int64_t{0}}),
              HasSubstr("argument 3 (batch_size) must be at least 1"));
  labels_[2] = 10;
  EXPECT_THAT(refused("evaluate", {Images(), Labels(), Parameters()}),
              HasSubstr("argument 2 (labels) has a label above 9"));
}

}  // namespace
}  // namespace lockstep::examples::digits
