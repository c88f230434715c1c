#include "runtime/fragment/kernel_signature.h"

#include <gmock/gmock.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/fragment/kernel_numbers.h"

namespace lockstep::fragment {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

KernelSignature Parsed(std::string_view source, std::string_view kernel = "f") {
  auto parsed = ParseKernelSignature(source, kernel);
  if (const auto* error = std::get_if<SourceError>(&parsed)) {
    ADD_FAILURE() << error->line << ":" << error->column << ": " << error->message;
    return {};
  }
  return std::get<KernelSignature>(parsed);
}

// "2:7: what is wrong"
std::string ErrorOf(std::string_view source) {
  const auto parsed = ParseKernelSignature(source, "f");
  const auto* error = std::get_if<SourceError>(&parsed);
  if (error == nullptr) return "none";
  return std::to_string(error->line) + ":" + std::to_string(error->column) + ": " + error->message;
}

std::vector<std::string> ParametersOf(const KernelSignature& signature) {
  std::vector<std::string> texts;
  for (const auto& parameter : signature.Parameters()) {
    texts.push_back(parameter.type + " " + parameter.name);
  }
  return texts;
}

TEST(KernelSignatureTest, StatesTypesAndParameters) {
  const KernelSignature read = Parsed(
      "__device__ int helper();\n"
      "  // lockstep: f(x: float64[n, 4], by: float32, flags: bool[n]) -> "
      "(y: float64[n], all: bool[])\n");
  EXPECT_EQ(read.signature.ToString(),
            "f(float64[?, 4], float32, bool[?]) -> (float64[?], bool[])");
  EXPECT_TRUE(read.signature.results[0].sizes_known);
  EXPECT_THAT(ParametersOf(read), ElementsAre("const double* x", "float by", "const bool* flags",
                                              "double* y", "bool* all", "int64_t n"));
  EXPECT_EQ(read.line, 2u);
}

TEST(KernelSignatureTest, PartsMayBeAskedWhereTheyLie) {
  const KernelSignature read =
      Parsed("// lockstep: f(x: int32[n from first of total, k]) -> (y: int64[total]) over n * k");
  EXPECT_TRUE(read.signature.arguments[0].uses_offset);
  EXPECT_TRUE(read.signature.arguments[0].uses_global_shape);
  EXPECT_THAT(ParametersOf(read), ElementsAre("const int* x", "int64_t* y", "int64_t n",
                                              "int64_t first", "int64_t total", "int64_t k"));
  EXPECT_TRUE(read.signature.results[0].sizes_known);
}

TEST(KernelSignatureTest, ExtentsMayBeArgumentsOrToldByTheCaller) {
  const KernelSignature read =
      Parsed("// lockstep: f(count: int32, x: float32[n]) -> (y: float32[count], z: float32[m])");
  EXPECT_TRUE(read.signature.results[0].sizes_known);
  EXPECT_FALSE(read.signature.results[1].sizes_known);
  EXPECT_THAT(ParametersOf(read), ElementsAre("int count", "const float* x", "float* y", "float* z",
                                              "int64_t n", "int64_t m"));
}

TEST(KernelSignatureTest, GoesOnInTheNextLinesOfItsComment) {
  const KernelSignature read = Parsed(
      "// lockstep: f(x: float64[n],\r\n"
      "//             by: float64)\r\n"
      "//     -> (y: float64[n])\r\n"
      "// over and over again: this is prose.\r\n");
  EXPECT_EQ(read.signature.ToString(), "f(float64[?], float64) -> (float64[?])");
  EXPECT_TRUE(read.threads.empty());
}

TEST(KernelSignatureTest, EachKernelHasItsOwn) {
  constexpr std::string_view kSource =
      "// lockstep: f(x: int32[1]) -> (y: int32[1])\n"
      "// lockstep: math::g<float>(x: float32[1]) -> (y: float32[2])\n";
  EXPECT_EQ(Parsed(kSource, "math::g<float>").signature.ToString(),
            "math::g<float>(float32[1]) -> (float32[2])");
}

TEST(KernelSignatureTest, ErrorsSayWhere) {
  EXPECT_THAT(ErrorOf("__global__ void f();"), HasSubstr("1:1: no comment states what `f` takes"));
  EXPECT_THAT(ErrorOf("// lockstep: g() -> (y: int32[1])"), HasSubstr("1:1: no comment"));
  EXPECT_THAT(ErrorOf("\n// lockstep: f(x float32) -> (y: int32[1])"),
              HasSubstr("2:18: the signature needs `:` here"));
  EXPECT_THAT(ErrorOf("// lockstep: f(x: float16[n]) -> (y: int32[1])"),
              HasSubstr("1:19: `float16` is no dtype of fragments"));
  EXPECT_THAT(ErrorOf("// lockstep: f(x: float32[?]) -> (y: int32[1])"),
              HasSubstr("1:27: the kernel is told extents by name"));
  EXPECT_THAT(ErrorOf("// lockstep: f(x: float32[]) -> (y: int32[1])"),
              HasSubstr("1:27: an argument without dimensions is a number"));
  EXPECT_THAT(ErrorOf("// lockstep: f(x: float32[n], n: int64) -> (y: int32[1])"),
              HasSubstr("1:31: the signature has two things called `n`"));
  EXPECT_THAT(ErrorOf("// lockstep: f(a: float32) -> (y: int32[a])"),
              HasSubstr("1:41: `a` is no integer"));
  EXPECT_THAT(ErrorOf("// lockstep: f(x: float32[99999999999999999999]) -> (y: int32[1])"),
              HasSubstr("the extent is too large"));
  EXPECT_THAT(ErrorOf("// lockstep: f(x: float32[n])"), HasSubstr("needs `->` here"));
  EXPECT_THAT(ErrorOf("// lockstep: f(x: float32[n]) -> ()"), HasSubstr("a kernel needs a result"));
  EXPECT_THAT(ErrorOf("// lockstep: f(x: float32[n]) -> (y: int32[n]) over k"),
              HasSubstr("1:53: `k` is not known"));
  EXPECT_THAT(ErrorOf("// lockstep: f(x: float32[n]) -> (y: int32[n]); // so"),
              HasSubstr("1:47: the signature ends before this"));
  std::string many = "1";
  for (int d = 0; d < Shape::kMaxDims; ++d) many += ",1";
  EXPECT_THAT(ErrorOf("// lockstep: f(x: float32[" + many + "]) -> (y: int32[1])"),
              HasSubstr("1:14: argument 0 has"));
}

TEST(KernelSignatureTest, HasABoundedNumberOfNames) {
  std::string many = "// lockstep: f(";
  for (int i = 0; i < 65; ++i) many += "x" + std::to_string(i) + ": int32, ";
  EXPECT_THAT(ErrorOf(many + "z: bool) -> (y: int32[1])"), HasSubstr("has at most 64 arguments"));
}

// --- Calls ---------------------------------------------------------------------------------------

class KernelNumbersTest : public ::testing::Test {
 protected:
  // Rows 5, 6 and 7 of 9, and a number.
  const std::array<int64_t, 1> sizes_{3}, offsets_{5}, whole_{9};
  int64_t count_ = 2;
  std::vector<LockstepFragmentTensor> arguments_ = {
      {nullptr, sizes_.data(), offsets_.data(), whole_.data()},
      {&count_, nullptr, nullptr, nullptr}};
  const KernelSignature signature_ = Parsed(
      "// lockstep: f(x: float64[n from first of total], k: int64) -> "
      "(y: float64[n, k], z: float64[m, total])");
};

TEST_F(KernelNumbersTest, NamesStandForWhatACallGives) {
  auto numbers = KernelNumbers::Of(signature_, arguments_);
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  EXPECT_THAT(*numbers->ResultExtents(0), ElementsAre(3, 2));
  EXPECT_THAT(*numbers->ResultExtents(1), ElementsAre(kOpen, 9));
  EXPECT_EQ(*numbers->Threads(), 6u);
  const std::array<int64_t, 2> y{3, 2}, z{7, 9};
  const std::vector<LockstepFragmentTensor> results = {{nullptr, y.data(), nullptr, nullptr},
                                                       {nullptr, z.data(), nullptr, nullptr}};
  ASSERT_TRUE(numbers->Learn(results).ok());
  EXPECT_THAT(numbers->values(),
              ElementsAre(Optional(3), Optional(5), Optional(9), Optional(2), Optional(7)));
}

TEST_F(KernelNumbersTest, ANameIsOneNumber) {
  const KernelSignature both =
      Parsed("// lockstep: f(x: float64[n], y: float64[n]) -> (z: float64[n])");
  const std::array<int64_t, 1> other{4};
  arguments_[1] = {nullptr, other.data(), offsets_.data(), whole_.data()};
  EXPECT_THAT(Message(KernelNumbers::Of(both, arguments_).status()),
              HasSubstr("`n` of `f` is 3, and dimension 0 of `y` is 4"));
}

TEST_F(KernelNumbersTest, NegativeExtentsAreRefused) {
  count_ = -1;
  const auto numbers = KernelNumbers::Of(signature_, arguments_);
  ASSERT_TRUE(numbers.ok());
  EXPECT_THAT(Message(numbers->ResultExtents(0).status()),
              HasSubstr("`k`, an extent of `y`, is -1"));
  EXPECT_FALSE(numbers->Threads().ok());
  count_ = int64_t{1} << 62;
  const auto many = KernelNumbers::Of(signature_, arguments_);
  EXPECT_FALSE(many->Threads().ok());
}

}  // namespace
}  // namespace lockstep::fragment
