// A running fragment reads and writes nothing outside of its tensors.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/runtime/fragment/mlir/fragment_object.h"

namespace lockstep::fragment {
namespace {

Operand Number(int64_t value) { return Operand::Of<int64_t>({}, {value}); }

TEST(FragmentBoundsTest, WhatIsOutsideOfATensorIsNotTouched) {
  FragmentObject object(R"(func.func @at(%x: tensor<?xf64>, %i: i64) -> f64 {
  %k = arith.index_cast %i : i64 to index
  %r = tensor.extract %x[%k] : tensor<?xf64>
  return %r : f64
})");
  const Operand x = Operand::Of<double>({3}, {1, 2, 3});
  EXPECT_EQ(object.Results({x, Operand::Of<int64_t>({}, {2})})[0].As<double>()[0], 3);
  Call call;
  for (const int64_t index : {3l, -1l, 1l << 40}) {
    EXPECT_EQ(object.Run(call, {x, Operand::Of<int64_t>({}, {index})}),
              LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS)
        << index;
    EXPECT_EQ(call.context.error.line, 3u);
    EXPECT_STREQ(call.context.error.operation, "tensor.extract");
  }
}

TEST(FragmentBoundsTest, OperandsOfUnequalSizesAreRefused) {
  FragmentObject object(R"(func.func @add(%x: tensor<?xf64>, %y: tensor<?xf64>) -> tensor<?xf64> {
  %r = arith.addf %x, %y : tensor<?xf64>
  return %r : tensor<?xf64>
})");
  Call call;
  EXPECT_EQ(
      object.Run(call, {Operand::Of<double>({3}, {1, 2, 3}), Operand::Of<double>({2}, {1, 2})}),
      LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
  EXPECT_EQ(call.context.error.line, 2u);
  EXPECT_STREQ(call.context.error.operation, "arith.addf");
}

TEST(FragmentBoundsTest, SlicesStayInsideOfTheirTensor) {
  FragmentObject object(
      R"(func.func @slice(%x: tensor<?xf64>, %o: i64, %n: i64, %s: i64) -> tensor<?xf64> {
  %offset = arith.index_cast %o : i64 to index
  %size = arith.index_cast %n : i64 to index
  %stride = arith.index_cast %s : i64 to index
  %r = tensor.extract_slice %x[%offset] [%size] [%stride] : tensor<?xf64> to tensor<?xf64>
  return %r : tensor<?xf64>
})");
  const Operand x = Operand::Of<double>({4}, {1, 2, 3, 4});
  EXPECT_EQ(object.Results({x, Number(1), Number(3), Number(1)})[0].As<double>(),
            (std::vector<double>{2, 3, 4}));
  EXPECT_EQ(object.Results({x, Number(3), Number(2), Number(-2)})[0].As<double>(),
            (std::vector<double>{4, 2}));
  EXPECT_EQ(object.Results({x, Number(4), Number(0), Number(1)})[0].shape, std::vector<int64_t>{0});
  Call call;
  EXPECT_EQ(object.Run(call, {x, Number(2), Number(3), Number(1)}),
            LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
  EXPECT_EQ(object.Run(call, {x, Number(-1), Number(1), Number(1)}),
            LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
  // Both ends are inside, since 16 * 2^60 is 0 as a number of 64 bits; what is between them is not.
  EXPECT_EQ(object.Run(call, {Operand::Of<double>({17}, Numbers<double>(17)), Number(0), Number(17),
                              Number(int64_t{1} << 60)}),
            LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
}

TEST(FragmentBoundsTest, IndicesThatFallStayInsideToo) {
  // From 0 to 6 for 4 by 4, and 3 at both of the loops' ends.
  FragmentObject object(
      R"(#index = affine_map<(d0, d1) -> (d0 - d1 + 3)>
#wheel = affine_map<(d0, d1) -> ((d0 * 3 + d1) mod 7)>
#whole = affine_map<(d0, d1) -> (d0, d1)>
func.func @f(%x: tensor<?xf64>, %y: tensor<?x?xf64>, %o: tensor<?xf64>) -> (tensor<?x?xf64>, tensor<?xf64>) {
  %r = linalg.generic {indexing_maps = [#index, #wheel, #whole], iterator_types = ["parallel", "parallel"]}
      ins(%x, %x : tensor<?xf64>, tensor<?xf64>) outs(%y : tensor<?x?xf64>) {
    ^bb0(%a: f64, %w: f64, %b: f64):
      linalg.yield %a : f64
  } -> tensor<?x?xf64>
  %s = linalg.generic {indexing_maps = [#whole, #index], iterator_types = ["reduction", "reduction"]}
      ins(%y : tensor<?x?xf64>) outs(%o : tensor<?xf64>) {
    ^bb0(%a: f64, %b: f64):
      linalg.yield %a : f64
  } -> tensor<?xf64>
  return %r, %s : tensor<?x?xf64>, tensor<?xf64>
})");
  const auto zeros = [](int64_t count) {
    return Operand::Of<double>({count}, std::vector<double>(count));
  };
  const Operand x = Operand::Of<double>({7}, {0, 1, 2, 3, 4, 5, 6});
  const Operand y = Operand::Of<double>({4, 4}, std::vector<double>(16, 2));
  const std::vector<Operand> results = object.Results({x, y, zeros(7)});
  EXPECT_EQ(results[0].As<double>(),
            (std::vector<double>{3, 2, 1, 0, 4, 3, 2, 1, 5, 4, 3, 2, 6, 5, 4, 3}));
  EXPECT_EQ(results[1].As<double>(), std::vector<double>(7, 2));
  Call call;
  EXPECT_EQ(object.Run(call, {zeros(6), y, zeros(7)}), LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
  EXPECT_EQ(call.context.error.line, 5u);
  EXPECT_EQ(object.Run(call, {x, y, zeros(6)}), LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
  EXPECT_EQ(call.context.error.line, 10u);
  // The least is -1.
  EXPECT_EQ(object.Run(call, {x, Operand::Of<double>({3, 5}, std::vector<double>(15)), zeros(7)}),
            LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
}

TEST(FragmentBoundsTest, NewShapesHaveAsManyElementsAsOldOnes) {
  FragmentObject object(
      R"(func.func @f(%x: tensor<?xf64>, %s: tensor<2xi64>) -> tensor<?x?xf64> {
  %r = tensor.reshape %x(%s) : (tensor<?xf64>, tensor<2xi64>) -> tensor<?x?xf64>
  return %r : tensor<?x?xf64>
})");
  Call call;
  const auto run = [&](const Operand& x, const std::vector<int64_t>& shape) {
    return object.Run(call, {x, Operand::Of<int64_t>({2}, shape)}, {{2, 2}});
  };
  const Operand four = Operand::Of<double>({4}, {1, 2, 3, 4});
  ASSERT_EQ(run(four, {2, 2}), LOCKSTEP_FRAGMENT_OK);
  EXPECT_EQ(object.results[0].As<double>(), four.As<double>());
  EXPECT_EQ(run(four, {64, 1}), LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
  EXPECT_STREQ(call.context.error.operation, "tensor.reshape");
  EXPECT_EQ(run(four, {-2, -2}), LOCKSTEP_FRAGMENT_NEGATIVE_SIZE);
  // As numbers of 64 bits, 2^32 * 2^32 is 0.
  const int64_t large = int64_t{1} << 32;
  EXPECT_EQ(run(Operand::Of<double>({0}, {}), {large, large}), LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
}

TEST(FragmentBoundsTest, WritesStayInsideOfTheirTensor) {
  FragmentObject object(R"(func.func @put(%x: tensor<?xf64>, %i: i64, %j: i64) -> tensor<?xf64> {
  %one = arith.constant 1.0 : f64
  %k = arith.index_cast %i : i64 to index
  %l = arith.index_cast %j : i64 to index
  %p = tensor.insert %one into %x[%k] : tensor<?xf64>
  %s = tensor.extract_slice %x[0] [2] [1] : tensor<?xf64> to tensor<2xf64>
  %r = tensor.insert_slice %s into %p[%l] [2] [1] : tensor<2xf64> into tensor<?xf64>
  return %r : tensor<?xf64>
})");
  const Operand x = Operand::Of<double>({4}, {5, 6, 7, 8});
  EXPECT_EQ(object.Results({x, Number(0), Number(2)})[0].As<double>(),
            (std::vector<double>{1, 6, 5, 6}));
  Call call;
  for (const int64_t index : {4l, -1l, 1l << 40}) {
    EXPECT_EQ(object.Run(call, {x, Number(index), Number(0)}), LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
    EXPECT_EQ(call.context.error.line, 5u);
  }
  for (const int64_t index : {3l, -1l, 1l << 62}) {
    EXPECT_EQ(object.Run(call, {x, Number(0), Number(index)}), LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
    EXPECT_EQ(call.context.error.line, 7u);
  }
}

TEST(FragmentBoundsTest, DimensionsAndShapesThatAreComputedAreChecked) {
  FragmentObject dim(R"(func.func @extent(%x: tensor<?x7xf64>, %d: i64) -> i64 {
  %k = arith.index_cast %d : i64 to index
  %n = tensor.dim %x, %k : tensor<?x7xf64>
  %r = arith.index_cast %n : index to i64
  return %r : i64
})");
  const Operand none = Operand::Of<double>({0, 7}, {});
  EXPECT_EQ(dim.Results({none, Number(1)})[0].As<int64_t>()[0], 7);
  Call call;
  for (const int64_t dimension : {2l, -1l, 1l << 20}) {
    EXPECT_EQ(dim.Run(call, {none, Number(dimension)}), LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
  }
  FragmentObject reshape(R"(func.func @f(%x: tensor<?xf64>, %s: tensor<2xi64>) -> f64 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %y = tensor.reshape %x(%s) : (tensor<?xf64>, tensor<2xi64>) -> tensor<?x?xf64>
  %r = tensor.extract %y[%c1, %c0] : tensor<?x?xf64>
  return %r : f64
})");
  const Operand x = Operand::Of<double>({6}, {1, 2, 3, 4, 5, 6});
  const auto shape = [](int64_t rows, int64_t columns) {
    return Operand::Of<int64_t>({2}, {rows, columns});
  };
  EXPECT_EQ(reshape.Results({x, shape(2, 3)})[0].As<double>()[0], 4);
  EXPECT_EQ(reshape.Run(call, {x, shape(2, 4)}), LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
  EXPECT_EQ(reshape.Run(call, {x, shape(1l << 62, 1l << 62)}), LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
  EXPECT_EQ(reshape.Run(call, {x, shape(-2, -3)}), LOCKSTEP_FRAGMENT_NEGATIVE_SIZE);
}

TEST(FragmentBoundsTest, IndicesThatLoopsComputeAreCheckedAtTheirLeastAndMost) {
  const auto run = [](const std::string& map, int64_t size, int64_t rows, int64_t columns) {
    static std::map<std::string, std::unique_ptr<FragmentObject>> objects;
    auto& object = objects[map];
    if (object == nullptr) {
      object = std::make_unique<FragmentObject>(
          R"(func.func @f(%x: tensor<?xf64>, %y: tensor<?x?xf64>) -> tensor<?x?xf64> {
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> ()" +
          map + R"()>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<?xf64>) outs(%y : tensor<?x?xf64>) {
   ^bb0(%a: f64, %b: f64):
    linalg.yield %a : f64 } -> tensor<?x?xf64>
  return %r : tensor<?x?xf64>
})");
    }
    Call call;
    return object->Run(call,
                       {Operand::Of<double>({size}, std::vector<double>(size)),
                        Operand::Of<double>({rows, columns}, std::vector<double>(rows * columns))});
  };
  EXPECT_EQ(run("i + j", 6, 3, 4), LOCKSTEP_FRAGMENT_OK);
  EXPECT_EQ(run("i + j", 5, 3, 4), LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
  EXPECT_EQ(run("i - j", 9, 3, 1), LOCKSTEP_FRAGMENT_OK);
  EXPECT_EQ(run("i - j", 9, 3, 3), LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
  EXPECT_EQ(run("i - j", 9, 3, 0), LOCKSTEP_FRAGMENT_OK);
  EXPECT_EQ(run("i mod 3 + j floordiv 2", 5, 10, 6), LOCKSTEP_FRAGMENT_OK);
  EXPECT_EQ(run("i mod 3 + j floordiv 2", 4, 10, 6), LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
}

TEST(FragmentBoundsTest, DimensionsThatThereAreNot) {
  FragmentObject object(R"(func.func @f(%x: tensor<?x3xf64>, %i: i64, %n: i64) -> (i64, i64) {
  %k = arith.index_cast %i : i64 to index
  %d = tensor.dim %x, %k : tensor<?x3xf64>
  %r = arith.index_cast %d : index to i64
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %end = arith.index_cast %n : i64 to index
  %s = scf.for %j = %c0 to %end step %c1 iter_args(%a = %c0) -> index {
    %which = arith.andi %a, %c1 : index
    %e = tensor.dim %x, %which : tensor<?x3xf64>
    %b = arith.addi %a, %e : index
    scf.yield %b : index
  }
  %t = arith.index_cast %s : index to i64
  return %r, %t : i64, i64
})");
  const Operand x = Operand::Of<double>({2, 3}, Numbers<double>(6));
  // So many that 8 bytes of stack in each iteration were too much.
  const auto results = object.Results({x, Number(0), Number(4000000)});
  EXPECT_EQ(results[0].As<int64_t>()[0], 2);
  EXPECT_EQ(results[1].As<int64_t>()[0], 8000000);
  EXPECT_EQ(object.Results({x, Number(1), Number(0)})[0].As<int64_t>()[0], 3);
  Call call;
  for (const int64_t index : {2, 100, -1}) {
    EXPECT_EQ(object.Run(call, {x, Number(index), Number(0)}), LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
    EXPECT_STREQ(call.context.error.operation, "tensor.dim");
  }
}

}  // namespace
}  // namespace lockstep::fragment
