// The module behind its ABI: shapes of results, the splitting of weights, and refusals.
#include <cstdint>
#include <random>
#include <vector>

#include "examples/tensor_parallel/bodies.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/examples/support/loaded_module.h"

namespace lockstep::examples::tensor_parallel {
namespace {

using ::testing::HasSubstr;

class TransformerModuleTest : public testing::Test {
 protected:
  TransformerModuleTest() : module_("examples/tensor_parallel/transformer_module.so") {}

  tensor::Tensor Normal(const Shape& shape) {
    std::vector<float> elements(static_cast<size_t>(shape.NumElements()));
    for (float& element : elements) element = normal_(random_);
    return module_.MakeTensor<float>(shape, elements);
  }
  tensor::Tensor Call(const char* name, const std::vector<registers::Value>& args) const {
    const auto result = module_.Call(name, args);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result->As<tensor::Tensor>() : tensor::Tensor();
  }
  static tensor::Tensor Rows(const tensor::Tensor& tensor, int64_t begin, int64_t end) {
    return *tensor.Rows(begin, end);
  }
  float Difference(const tensor::Tensor& a, const tensor::Tensor& b) const {
    return Call("max_abs_difference", {a, b}).data_as<float>()[0];
  }

  const LoadedModule module_;
  std::mt19937_64 random_{1};
  std::normal_distribution<float> normal_;
};

// What the workers do with an allreduce, here with two parts in one process, one of them larger.
TEST_F(TransformerModuleTest, SummandsOfUnequalPartsAddUpToTheWhole) {
  constexpr int64_t kTokens = 6, kSequence = 3, kWidth = 20, kHeads = 5, kHeadDim = 4;
  const auto x = Normal({kTokens, kWidth});
  const auto qkv_weights = Normal({kHeads, 3 * kHeadDim, kWidth});
  const auto qkv_bias = Normal({kHeads, 3 * kHeadDim});
  const auto out_weights = Normal({kHeads, kHeadDim, kWidth});
  const auto summand = [&](int64_t begin, int64_t end) {
    const auto qkv =
        Call("project_to_part", {x, Rows(qkv_weights, begin, end), Rows(qkv_bias, begin, end)});
    EXPECT_EQ(qkv.shape(), (Shape{kTokens, (end - begin) * 3 * kHeadDim}));
    const auto heads = Call("attention", {qkv, kSequence, kHeadDim});
    EXPECT_EQ(heads.shape(), (Shape{kTokens, (end - begin) * kHeadDim}));
    return Call("project_from_part", {Call("gelu", {heads}), Rows(out_weights, begin, end)});
  };
  const auto no_bias = module_.MakeTensor<float>({kWidth}, std::vector<float>(kWidth, 0.0f));
  const auto sum = Call("add_bias_and_residual", {summand(0, 2), no_bias, summand(2, kHeads)});
  EXPECT_LT(Difference(sum, summand(0, kHeads)), 1e-5f);
  // A worker without heads contributes nothing.
  const auto nothing = Call("add_bias_and_residual", {sum, no_bias, summand(2, 2)});
  EXPECT_EQ(Difference(sum, nothing), 0.0f);
}

TEST_F(TransformerModuleTest, LayerNormIsThatOfTheKernel) {
  const auto x = Normal({3, 8}), gain = Normal({8}), bias = Normal({8});
  std::vector<float> expected(3 * 8);
  LayerNorm{x.data_as<float>(), gain.data_as<float>(), bias.data_as<float>(), 3, 8, expected.data()}
      .Run(0, 1);
  EXPECT_EQ(Elements<float>(module_.Call("layer_norm", {x, gain, bias})), expected);
}

TEST_F(TransformerModuleTest, WrongArgumentsAreRefused) {
  const auto refused = [&](const char* name, const std::vector<registers::Value>& args) {
    const Status status = module_.Call(name, args).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    return Message(status);
  };
  EXPECT_THAT(refused("gelu", {int64_t{3}}),
              HasSubstr("argument 1 (x) must be a tensor, not an int"));
  EXPECT_THAT(refused("layer_norm", {Normal({2, 4}), Normal({4}), Normal({5})}),
              HasSubstr("argument 3 (bias) has the wrong shape: expected [4], got [5]"));
  EXPECT_THAT(refused("attention", {Normal({6, 12}), int64_t{4}, int64_t{4}}),
              HasSubstr("argument 2 (sequence) does not divide the tokens"));
  EXPECT_THAT(refused("attention", {Normal({6, 12}), int64_t{0}, int64_t{4}}),
              HasSubstr("argument 2 (sequence) does not divide the tokens"));
  EXPECT_THAT(refused("attention", {Normal({6, 12}), int64_t{3}, int64_t{5}}),
              HasSubstr("argument 3 (head_dim) does not divide a token into heads"));
}

}  // namespace
}  // namespace lockstep::examples::tensor_parallel
