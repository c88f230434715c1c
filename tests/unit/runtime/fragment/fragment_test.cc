#include "runtime/fragment/fragment.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::fragment {
namespace {

TEST(FragmentTest, HoldsWhatItIsMadeOf) {
  const Fragment mlir = *Fragment::Mlir("func.func @f()", "f.mlir");
  EXPECT_EQ(mlir.kind(), Kind::kMlir);
  EXPECT_EQ(mlir.source(), "func.func @f()");
  EXPECT_EQ(mlir.name(), "f.mlir");
  EXPECT_FALSE(mlir.is_bytecode());
  const Fragment cuda = *Fragment::Cuda("__global__ void k() {}", "k");
  EXPECT_EQ(cuda.entry(), "k");
  const Fragment function = *Fragment::Function("mine.f");
  EXPECT_EQ(function.entry(), "mine.f");
  EXPECT_EQ(function.name(), "mine.f");
}

TEST(FragmentTest, TextsAreCheckedAndBytecodeIsNot) {
  const std::string zero("a\0b", 3);
  EXPECT_EQ(Fragment::Mlir(zero).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Fragment::Mlir("\xff").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Fragment::Cuda(zero, "k").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Fragment::Cuda("x", zero).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Fragment::Function(zero).status().code(), StatusCode::kInvalidArgument);
  const auto bytecode = Fragment::Mlir("ML\xefR" + zero);
  ASSERT_TRUE(bytecode.ok()) << bytecode.status();
  EXPECT_TRUE(bytecode->is_bytecode());
}

TEST(FragmentTest, SizesAreBounded) {
  EXPECT_TRUE(Fragment::Mlir(std::string(Fragment::kMaxSourceBytes, 'x')).ok());
  const Status status = Fragment::Mlir(std::string(Fragment::kMaxSourceBytes + 1, 'x')).status();
  EXPECT_EQ(Message(status), "a fragment of MLIR has at most 4194304 bytes, this one has 4194305");
  EXPECT_FALSE(Fragment::Mlir("").ok());
  EXPECT_FALSE(Fragment::Mlir("x", "").ok());
  EXPECT_TRUE(Fragment::Function(std::string(Fragment::kMaxNameBytes, 'x')).ok());
  EXPECT_FALSE(Fragment::Function(std::string(Fragment::kMaxNameBytes + 1, 'x')).ok());
}

}  // namespace
}  // namespace lockstep::fragment
