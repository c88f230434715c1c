// What LLVM leaves undefined is defined in fragments, and leaves no check out.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/unit/runtime/fragment/mlir/fragment_object.h"

namespace lockstep::fragment {
namespace {

// A check that depends on what LLVM leaves undefined would be left out: here no index is right.
void ExpectNoIndexIsRight(const std::string& lines) {
  FragmentObject object("func.func @f(%x: tensor<?xf64>, %f: f64) -> f64 {\n" + lines +
                        "  %k = arith.index_cast %i : i64 to index\n"
                        "  %r = tensor.extract %x[%k] : tensor<?xf64>\n  return %r : f64\n}");
  Call call;
  EXPECT_EQ(object.Run(call, {Operand::Of<double>({0}, {}), Operand::Of<double>({}, {1e300})}),
            LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS)
      << lines;
}

TEST(FragmentUndefinedTest, NothingThatIsUndefinedElsewhereLeavesAnyCheckOut) {
  ExpectNoIndexIsRight("  %i = arith.fptosi %f : f64 to i64\n");
  ExpectNoIndexIsRight(
      "  %c = arith.constant 1.0e300 : f64\n  %i = arith.fptosi %c : f64 to i64\n");
  ExpectNoIndexIsRight(
      "  %c = arith.constant 100 : i64\n  %o = arith.constant 1 : i64\n"
      "  %i = arith.shli %o, %c : i64\n");
  ExpectNoIndexIsRight(
      "  %c1 = arith.constant 1 : index\n  %e = tensor.empty() : tensor<4xi64>\n"
      "  %i = tensor.extract %e[%c1] : tensor<4xi64>\n");
  ExpectNoIndexIsRight(
      "  %c = arith.constant 9223372036854775807 : i64\n"
      "  %i = arith.addi %c, %c overflow<nsw, nuw> : i64\n");
  ExpectNoIndexIsRight(
      "  %z = arith.constant 0.0 : f64\n  %n = arith.divf %z, %z fastmath<nnan> : f64\n"
      "  %b = arith.cmpf ogt, %n, %f fastmath<nnan> : f64\n  %i = arith.extui %b : i1 to i64\n");
}

TEST(FragmentUndefinedTest, ShiftsByTooManyBitsShiftAllOut) {
  FragmentObject object(R"(func.func @shift(%a: i32, %n: i32) -> (i32, i32, i32) {
  %l = arith.shli %a, %n : i32
  %u = arith.shrui %a, %n : i32
  %s = arith.shrsi %a, %n : i32
  return %l, %u, %s : i32, i32, i32
})");
  for (const int32_t bits : {0, 1, 31, 32, 33, 1000, -1}) {
    const auto results =
        object.Results({Operand::Of<int32_t>({}, {-5}), Operand::Of<int32_t>({}, {bits})});
    const bool all = bits < 0 || bits > 31;
    EXPECT_EQ(results[0].As<uint32_t>()[0], all ? 0 : 0xFFFFFFFBu << bits) << bits;
    EXPECT_EQ(results[1].As<uint32_t>()[0], all ? 0 : 0xFFFFFFFBu >> bits) << bits;
    EXPECT_EQ(results[2].As<int32_t>()[0], all ? -1 : -5 >> bits) << bits;
  }
}

TEST(FragmentUndefinedTest, WhatLlvmLeavesUndefinedMakesNoCheckGoAway) {
  // Each index is undefined in one way or another, and used for a table with one element.
  FragmentObject object(
      R"(func.func @f(%t: tensor<1xf64>, %n: i64, %v: f64, %which: i64) -> f64 {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c64 = arith.constant 64 : i64
  %huge = arith.constant 1.0e300 : f64
  %shift = arith.shli %c1, %c64 : i64
  %one_more = arith.addi %n, %c1 overflow<nsw> : i64
  %grows = arith.cmpi sgt, %one_more, %n : i64
  %wraps = arith.select %grows, %c0, %n : i64
  %cast = arith.fptosi %huge : f64 to i64
  %is_nan = arith.cmpf une, %v, %v fastmath<nnan> : f64
  %no_nan = arith.select %is_nan, %n, %c0 : i64
  %bit = arith.fptoui %v : f64 to i1
  %bit_number = arith.extui %bit : i1 to i64
  %room = tensor.empty() : tensor<6xi64>
  %k = arith.index_cast %which : i64 to index
  %written = tensor.insert %n into %room[%k] : tensor<6xi64>
  %last = arith.constant 5 : index
  %unwritten = tensor.extract %written[%last] : tensor<6xi64>
  %all = tensor.from_elements %shift, %wraps, %cast, %no_nan, %unwritten, %bit_number : tensor<6xi64>
  %index = tensor.extract %all[%k] : tensor<6xi64>
  %i = arith.index_cast %index : i64 to index
  %r = tensor.extract %t[%i] : tensor<1xf64>
  return %r : f64
})");
  Call call;
  const auto run = [&](int64_t n, double v, int64_t which) {
    return object.Run(call, {Operand::Of<double>({1}, {5}), Operand::Of<int64_t>({}, {n}),
                             Operand::Of<double>({}, {v}), Operand::Of<int64_t>({}, {which})});
  };
  ASSERT_EQ(run(0, 0, 0), LOCKSTEP_FRAGMENT_OK);
  EXPECT_EQ(object.results[0].As<double>()[0], 5);
  EXPECT_EQ(run(std::numeric_limits<int64_t>::max(), 0, 1), LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
  EXPECT_EQ(run(7, std::numeric_limits<double>::quiet_NaN(), 3), LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
  EXPECT_EQ(run(7, 0, 4), LOCKSTEP_FRAGMENT_OK);
  // Any number, but not an element that there is not.
  for (const int64_t which : {2, 5}) {
    if (run(0, 77, which) == LOCKSTEP_FRAGMENT_OK) {
      EXPECT_EQ(object.results[0].As<double>()[0], 5) << which;
    }
  }
}

TEST(FragmentUndefinedTest, BytesOfBoolsAreTrueUnlessTheyAreZero) {
  FragmentObject object(
      R"(func.func @f(%x: tensor<?xi1>, %t: tensor<2xf64>, %y: tensor<?xf64>) -> (f64, tensor<?xi1>, tensor<?xf64>) {
  %c0 = arith.constant 0 : index
  %first = tensor.extract %x[%c0] : tensor<?xi1>
  %number = arith.extui %first : i1 to i64
  %i = arith.index_cast %number : i64 to index
  %r = tensor.extract %t[%i] : tensor<2xf64>
  %negated = arith.negf %y : tensor<?xf64>
  %s = arith.select %x, %y, %negated : tensor<?xi1>, tensor<?xf64>
  return %r, %x, %s : f64, tensor<?xi1>, tensor<?xf64>
})");
  const auto results =
      object.Results({Operand::Of<uint8_t>({4}, {255, 2, 1, 0}), Operand::Of<double>({2}, {5, 6}),
                      Operand::Of<double>({4}, {1, 2, 3, 4})});
  EXPECT_EQ(results[0].As<double>()[0], 6);
  EXPECT_EQ(results[1].As<uint8_t>(), (std::vector<uint8_t>{1, 1, 1, 0}));
  EXPECT_EQ(results[2].As<double>(), (std::vector<double>{1, 2, 3, -4}));
}

}  // namespace
}  // namespace lockstep::fragment
