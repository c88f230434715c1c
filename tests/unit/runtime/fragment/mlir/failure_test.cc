// How a running fragment fails, stops, and is kept within its tensors and its memory.
#include <chrono>
#include <limits>
#include <memory>
#include <thread>

#include "tests/unit/runtime/fragment/mlir/fragment_object.h"

namespace lockstep::fragment {
namespace {

TEST(FragmentFailureTest, IntegerDivisionByZeroNamesItsPlace) {
  FragmentObject object(
      R"(func.func @divide(%a: tensor<?xi64>, %b: tensor<?xi64>) -> tensor<?xi64> {
  %c = arith.divsi %a, %b : tensor<?xi64>
  return %c : tensor<?xi64>
})");
  const Operand a = Operand::Of<int64_t>({3}, {7, -7, 9});
  EXPECT_EQ(object.Results({a, Operand::Of<int64_t>({3}, {2, 2, -3})})[0].As<int64_t>(),
            (std::vector<int64_t>{3, -3, -3}));
  Call call;
  EXPECT_EQ(object.Run(call, {a, Operand::Of<int64_t>({3}, {2, 0, 1})}),
            LOCKSTEP_FRAGMENT_DIVIDED_BY_ZERO);
  EXPECT_EQ(call.context.error.line, 2u);
  EXPECT_EQ(call.context.error.column, 8u);
  EXPECT_STREQ(call.context.error.operation, "arith.divsi");
  const Operand least = Operand::Of<int64_t>({1}, {std::numeric_limits<int64_t>::min()});
  EXPECT_EQ(object.Run(call, {least, Operand::Of<int64_t>({1}, {-1})}),
            LOCKSTEP_FRAGMENT_DIVISION_OVERFLOW);
}

TEST(FragmentFailureTest, EveryKindOfDivisionIsChecked) {
  for (const char* name :
       {"divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi"}) {
    FragmentObject object("func.func @f(%a: i32, %b: i32) -> i32 {\n  %c = arith." +
                          std::string(name) + " %a, %b : i32\n  return %c : i32\n}");
    Call call;
    EXPECT_EQ(object.Run(call, {Operand::Of<int32_t>({}, {7}), Operand::Of<int32_t>({}, {2})}),
              LOCKSTEP_FRAGMENT_OK);
    const std::string text = name;
    const int32_t expected = text.find("rem") == 0 ? 1 : text.find("ceil") == 0 ? 4 : 3;
    EXPECT_EQ(object.results[0].As<int32_t>()[0], expected) << name;
    EXPECT_EQ(object.Run(call, {Operand::Of<int32_t>({}, {7}), Operand::Of<int32_t>({}, {0})}),
              LOCKSTEP_FRAGMENT_DIVIDED_BY_ZERO)
        << name;
    const int32_t least = std::numeric_limits<int32_t>::min();
    const bool is_signed = text.find("si") != std::string::npos;
    EXPECT_EQ(object.Run(call, {Operand::Of<int32_t>({}, {least}), Operand::Of<int32_t>({}, {-1})}),
              is_signed ? LOCKSTEP_FRAGMENT_DIVISION_OVERFLOW : LOCKSTEP_FRAGMENT_OK)
        << name;
    // One off is no overflow, however a division is expanded.
    EXPECT_EQ(
        object.Run(call, {Operand::Of<int32_t>({}, {least + 1}), Operand::Of<int32_t>({}, {-1})}),
        LOCKSTEP_FRAGMENT_OK)
        << name;
  }
}

// Aborts a call from another thread once it has begun, and expects that it ends.
void ExpectAborted(const std::string& text, std::vector<Operand> arguments, bool with_blas = true) {
  FragmentObject object(text);
  Call call(with_blas);
  // Mostly in the middle of the call; it ends all the same if that has not begun.
  std::thread aborter([&call] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    call.abort = 1;
  });
  EXPECT_EQ(object.Run(call, std::move(arguments)), LOCKSTEP_FRAGMENT_ABORTED);
  aborter.join();
}

TEST(FragmentFailureTest, EndlessLoopsAreAborted) {
  ExpectAborted(R"(func.func @forever(%x: i64) -> i64 {
  %y = scf.while (%t = %x) : (i64) -> i64 {
    %true = arith.constant true
    scf.condition(%true) %t : i64
  } do {
  ^bb0(%t: i64):
    %u = arith.addi %t, %t : i64
    scf.yield %u : i64
  }
  return %y : i64
})",
                {Operand::Of<int64_t>({}, {1})});
  // Neither a loop of empty bodies, nor one whose step is 0.
  ExpectAborted(R"(func.func @steps(%step: i64, %x: tensor<?xf64>) -> tensor<?xf64> {
  %c0 = arith.constant 0 : index
  %c9 = arith.constant 9 : index
  %s = arith.index_cast %step : i64 to index
  %y = scf.for %i = %c0 to %c9 step %s iter_args(%t = %x) -> tensor<?xf64> {
    %u = arith.addf %t, %t : tensor<?xf64>
    scf.yield %u : tensor<?xf64>
  }
  return %y : tensor<?xf64>
})",
                {Operand::Of<int64_t>({}, {0}), Operand::Of<double>({0}, {})});
}

TEST(FragmentFailureTest, LongLoopsPollBetweenChunks) {
  // 2^46 iterations, in one loop and in nests of short inner loops.
  constexpr char kLoop[] = R"(func.func @sum(%n: i64, %m: i64) -> f64 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f64
  %rows = arith.index_cast %n : i64 to index
  %columns = arith.index_cast %m : i64 to index
  %s = scf.for %i = %c0 to %rows step %c1 iter_args(%t = %zero) -> f64 {
    %r = scf.for %j = %c0 to %columns step %c1 iter_args(%u = %t) -> f64 {
      %k = arith.index_cast %j : index to i64
      %a = arith.sitofp %k : i64 to f64
      %b = arith.addf %u, %a : f64
      scf.yield %b : f64
    }
    scf.yield %r : f64
  }
  return %s : f64
})";
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{1, int64_t{1} << 46},
                                                                              {int64_t{1} << 46, 1},
                                                                              {int64_t{1} << 62, 0},
                                                                              {1 << 23, 1 << 23}}) {
    ExpectAborted(kLoop, {Operand::Of<int64_t>({}, {rows}), Operand::Of<int64_t>({}, {columns})});
  }
  // And what is cut into chunks is still all of it.
  FragmentObject object(kLoop);
  const auto results =
      object.Results({Operand::Of<int64_t>({}, {3}), Operand::Of<int64_t>({}, {100001})});
  EXPECT_EQ(results[0].As<double>()[0], 3 * 100000.0 * 100001 / 2);
}

TEST(FragmentFailureTest, ManyShortLoopsArePolledTogether) {
  // None of them is long enough for a poll of its own.
  std::string text = R"(func.func @f(%x0: f64) -> f64 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 200000 : index
)";
  constexpr int kLoops = 12;
  for (int i = 0; i < kLoops; ++i) {
    const std::string before = "%x" + std::to_string(i);
    text += "  %x" + std::to_string(i + 1) +
            " = scf.for %i = %c0 to %n step %c1 iter_args(%a = " + before +
            ") -> f64 {\n    %b = math.sin %a : f64\n    scf.yield %b : f64\n  }\n";
  }
  FragmentObject object(text + "  return %x" + std::to_string(kLoops) + " : f64\n}");
  Call call;
  call.abort = 1;
  EXPECT_EQ(object.Run(call, {Operand::Of<double>({}, {1})}), LOCKSTEP_FRAGMENT_ABORTED);
}

TEST(FragmentFailureTest, LoopsToTheLargestIndexDoNotBeginAgain) {
  FragmentObject object(R"(func.func @f(%b: i64, %e: i64) -> i64 {
  %c3 = arith.constant 3 : index
  %begin = arith.index_cast %b : i64 to index
  %end = arith.index_cast %e : i64 to index
  %one = arith.constant 1 : i64
  %r = scf.for %i = %begin to %end step %c3 iter_args(%a = %b) -> i64 {
    %u = arith.index_cast %i : index to i64
    %v = arith.xori %a, %u : i64
    scf.yield %v : i64
  }
  return %r : i64
})");
  Call call;
  const auto run = [&](int64_t begin, int64_t end) {
    return object.Run(call, {Operand::Of<int64_t>({}, {begin}), Operand::Of<int64_t>({}, {end})});
  };
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(run(kMax - 10, kMax), LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
  EXPECT_EQ(call.context.error.line, 6u);
  ASSERT_EQ(run(-6, 1), LOCKSTEP_FRAGMENT_OK);
  EXPECT_EQ(object.results[0].As<int64_t>()[0], -6 ^ -6 ^ -3 ^ 0);
}

constexpr char kNeedsMemory[] = R"(func.func @two_steps(%x: tensor<?xf64>, %n: i64) -> f64 {
  %zero = arith.constant 0.0 : f64
  %c0 = arith.constant 0 : index
  %size = arith.index_cast %n : i64 to index
  %e = tensor.empty(%size) : tensor<?xf64>
  %filled = linalg.fill ins(%zero : f64) outs(%e : tensor<?xf64>) -> tensor<?xf64>
  %first = tensor.extract %x[%c0] : tensor<?xf64>
  %written = tensor.insert %first into %filled[%c0] : tensor<?xf64>
  %r = tensor.extract %written[%c0] : tensor<?xf64>
  return %r : f64
})";

TEST(FragmentFailureTest, MemoryComesFromTheCallerWhoMayRefuse) {
  FragmentObject object(kNeedsMemory);
  const Operand x = Operand::Of<double>({1}, {5});
  Call call;
  ASSERT_EQ(object.Run(call, {x, Operand::Of<int64_t>({}, {1000})}), LOCKSTEP_FRAGMENT_OK);
  EXPECT_EQ(object.results[0].As<double>()[0], 5);
  EXPECT_EQ(call.most_bytes, 8000u);
  EXPECT_EQ(call.live.size(), 0u);
  call.limit_bytes = 7999;
  EXPECT_EQ(object.Run(call, {x, Operand::Of<int64_t>({}, {1000})}),
            LOCKSTEP_FRAGMENT_OUT_OF_MEMORY);
  EXPECT_EQ(call.context.error.line, 5u);
}

TEST(FragmentFailureTest, SizesThatCannotBeAreRefusedBeforeTheyAreAllocated) {
  FragmentObject object(kNeedsMemory);
  const Operand x = Operand::Of<double>({1}, {5});
  Call call;
  EXPECT_EQ(object.Run(call, {x, Operand::Of<int64_t>({}, {-1})}), LOCKSTEP_FRAGMENT_NEGATIVE_SIZE);
  // 2^61 + 1 elements of 8 bytes would be 8 bytes, if one did not look.
  EXPECT_EQ(object.Run(call, {x, Operand::Of<int64_t>({}, {(int64_t{1} << 61) + 1})}),
            LOCKSTEP_FRAGMENT_OUT_OF_MEMORY);
  EXPECT_EQ(call.allocations, 0);
}

TEST(FragmentFailureTest, WhatIsOutsideOfATensorIsNotTouched) {
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

TEST(FragmentFailureTest, OperandsOfUnequalSizesAreRefused) {
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

TEST(FragmentFailureTest, SlicesStayInsideOfTheirTensor) {
  FragmentObject object(
      R"(func.func @slice(%x: tensor<?xf64>, %o: i64, %n: i64, %s: i64) -> tensor<?xf64> {
  %offset = arith.index_cast %o : i64 to index
  %size = arith.index_cast %n : i64 to index
  %stride = arith.index_cast %s : i64 to index
  %r = tensor.extract_slice %x[%offset] [%size] [%stride] : tensor<?xf64> to tensor<?xf64>
  return %r : tensor<?xf64>
})");
  const Operand x = Operand::Of<double>({4}, {1, 2, 3, 4});
  const auto number = [](int64_t value) { return Operand::Of<int64_t>({}, {value}); };
  EXPECT_EQ(object.Results({x, number(1), number(3), number(1)})[0].As<double>(),
            (std::vector<double>{2, 3, 4}));
  EXPECT_EQ(object.Results({x, number(3), number(2), number(-2)})[0].As<double>(),
            (std::vector<double>{4, 2}));
  EXPECT_EQ(object.Results({x, number(4), number(0), number(1)})[0].shape, std::vector<int64_t>{0});
  Call call;
  EXPECT_EQ(object.Run(call, {x, number(2), number(3), number(1)}),
            LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
  EXPECT_EQ(object.Run(call, {x, number(-1), number(1), number(1)}),
            LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
  // Both ends are inside, since 16 * 2^60 is 0 as a number of 64 bits; what is between them is not.
  EXPECT_EQ(object.Run(call, {Operand::Of<double>({17}, Numbers<double>(17)), number(0), number(17),
                              number(int64_t{1} << 60)}),
            LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
}

TEST(FragmentFailureTest, IndicesThatFallStayInsideToo) {
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

TEST(FragmentFailureTest, NewShapesHaveAsManyElementsAsOldOnes) {
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

TEST(FragmentFailureTest, SizesThatDependOnContentsAreTheCallersToKnow) {
  FragmentObject object(
      R"(func.func @first_n(%n: tensor<i64>, %v: f64) -> (tensor<?xf64>, tensor<4xf64>) {
  %count = tensor.extract %n[] : tensor<i64>
  %size = arith.index_cast %count : i64 to index
  %r = tensor.splat %v[%size] : tensor<?xf64>
  %s = tensor.splat %v : tensor<4xf64>
  return %r, %s : tensor<?xf64>, tensor<4xf64>
})");
  ASSERT_EQ(object.answer().signature.results.size(), 2u);
  EXPECT_FALSE(object.answer().signature.results[0].sizes_known);
  EXPECT_TRUE(object.answer().signature.results[1].sizes_known);
  Call call;
  const std::vector<Operand> arguments = {Operand::Of<int64_t>({}, {3}),
                                          Operand::Of<double>({}, {7})};
  ASSERT_EQ(object.Run(call, arguments, {{3}, {}}), LOCKSTEP_FRAGMENT_OK);
  EXPECT_EQ(object.results[0].As<double>(), (std::vector<double>{7, 7, 7}));
  EXPECT_EQ(object.Run(call, arguments, {{2}, {}}), LOCKSTEP_FRAGMENT_RESULT_SIZE);
}

Operand Number(int64_t value) { return Operand::Of<int64_t>({}, {value}); }

TEST(FragmentFailureTest, WritesStayInsideOfTheirTensor) {
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

TEST(FragmentFailureTest, DimensionsAndShapesThatAreComputedAreChecked) {
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

TEST(FragmentFailureTest, IndicesThatLoopsComputeAreCheckedAtTheirLeastAndMost) {
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

TEST(FragmentFailureTest, NothingThatIsUndefinedElsewhereLeavesAnyCheckOut) {
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

TEST(FragmentFailureTest, ShiftsByTooManyBitsShiftAllOut) {
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

TEST(FragmentFailureTest, DimensionsThatThereAreNot) {
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
  const auto number = [](int64_t value) { return Operand::Of<int64_t>({}, {value}); };
  // So many that 8 bytes of stack in each iteration were too much.
  const auto results = object.Results({x, number(0), number(4000000)});
  EXPECT_EQ(results[0].As<int64_t>()[0], 2);
  EXPECT_EQ(results[1].As<int64_t>()[0], 8000000);
  EXPECT_EQ(object.Results({x, number(1), number(0)})[0].As<int64_t>()[0], 3);
  Call call;
  for (const int64_t index : {2, 100, -1}) {
    EXPECT_EQ(object.Run(call, {x, number(index), number(0)}), LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
    EXPECT_STREQ(call.context.error.operation, "tensor.dim");
  }
}

TEST(FragmentFailureTest, WhatLlvmLeavesUndefinedMakesNoCheckGoAway) {
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

TEST(FragmentFailureTest, BytesOfBoolsAreTrueUnlessTheyAreZero) {
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
