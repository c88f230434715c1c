// Loops over elements are vectorised, for the processor that is asked for.
#include <gmock/gmock.h>
#include <stdio.h>

#include <array>
#include <fstream>
#include <string>

#include "tests/support/files.h"
#include "tests/unit/runtime/fragment/mlir/fragment_object.h"

namespace lockstep::fragment {
namespace {

using ::testing::ContainsRegex;
using ::testing::Not;

// max((x + y) * x, 0): one loop, in which each operation has its instruction.
constexpr char kElementwise[] = R"(
func.func @relu(%x: tensor<?xf64>, %y: tensor<?xf64>) -> tensor<?xf64> {
  %zero = arith.constant 0.0 : f64
  %r = linalg.map ins(%x, %y : tensor<?xf64>, tensor<?xf64>) outs(%x : tensor<?xf64>)
    (%a: f64, %b: f64) {
      %s = arith.addf %a, %b : f64
      %p = arith.mulf %s, %a : f64
      %m = arith.maximumf %p, %zero : f64
      linalg.yield %m : f64
    }
  return %r : tensor<?xf64>
})";

constexpr char kSum[] = R"(
func.func @sum(%x: tensor<?xf64>) -> f64 {
  %zero = arith.constant 0.0 : f64
  %init = tensor.splat %zero : tensor<f64>
  %s = linalg.reduce ins(%x : tensor<?xf64>) outs(%init : tensor<f64>) dimensions = [0]
    (%a: f64, %acc: f64) {
      %n = arith.addf %acc, %a FLAGS : f64
      linalg.yield %n : f64
    }
  %r = tensor.extract %s[] : tensor<f64>
  return %r : f64
})";

// The instructions of what `text` becomes on a processor that LLVM calls so.
std::string InstructionsOf(const std::string& text, const std::string& processor) {
  Request request;
  request.fragment = text;
  const StatusOr<Target> target = FindTarget(processor, "");
  EXPECT_EQ(target.status(), OkStatus());
  const Answer answer = Compile(request, *target);
  EXPECT_FALSE(answer.failure.has_value()) << answer.failure->message;
  const support::ScratchDirectory directory;
  const std::string object = directory.File("fragment.so");
  std::ofstream(object, std::ios::binary) << answer.object;
  FILE* const listing = popen(("objdump -d --no-show-raw-insn " + object).c_str(), "r");
  std::string instructions;
  std::array<char, 4096> part;
  while (const size_t size = fread(part.data(), 1, part.size(), listing)) {
    instructions.append(part.data(), size);
  }
  EXPECT_EQ(pclose(listing), 0) << "objdump is one of the packages that compilers need";
  return instructions;
}

class FragmentVectorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef __x86_64__
    GTEST_SKIP() << "the instructions are those of x86-64";
#endif
  }
};

TEST_F(FragmentVectorsTest, ElementsAreComputedSeveralAtATime) {
  const std::string oldest = InstructionsOf(kElementwise, "x86-64");
  EXPECT_THAT(oldest, ContainsRegex("\taddpd .*%xmm"));
  EXPECT_THAT(oldest, ContainsRegex("\tmulpd .*%xmm"));
  EXPECT_THAT(oldest, Not(ContainsRegex("%ymm|%zmm"))) << "this processor has none";
  const std::string newer = InstructionsOf(kElementwise, "haswell");
  EXPECT_THAT(newer, ContainsRegex("\tvaddpd .*%ymm"));
  EXPECT_THAT(newer, ContainsRegex("\tvmulpd .*%ymm"));
}

// A sum keeps its order, so that it has the same bits everywhere; who does not need that, says so.
TEST_F(FragmentVectorsTest, SumsAreVectorisedWhereTheirOrderMayChange) {
  std::string strict = kSum;
  strict.replace(strict.find("FLAGS"), 5, "");
  EXPECT_THAT(InstructionsOf(strict, "haswell"), Not(ContainsRegex("\tvaddpd .*%ymm")));
  std::string fast = kSum;
  fast.replace(fast.find("FLAGS"), 5, "fastmath<reassoc>");
  EXPECT_THAT(InstructionsOf(fast, "haswell"), ContainsRegex("\tvaddpd .*%ymm"));
}

}  // namespace
}  // namespace lockstep::fragment
