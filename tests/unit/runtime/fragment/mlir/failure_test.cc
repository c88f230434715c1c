// How a running fragment fails, stops, and is kept within its memory.
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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

// Nothing needs what they compute, or that follows from no iteration: they do not end all the same.
TEST(FragmentFailureTest, EndlessLoopsAreNotLeftOut) {
  for (const char* condition : {"arith.constant true", "arith.cmpi ne, %i, %two : i64"}) {
    for (const auto& [result, uses] : std::vector<std::pair<std::string, std::string>>{
             {"%x", "%i"}, {"%two", "%i"}, {"%r", "%two"}, {"%zero", "%i"}}) {
      ExpectAborted(R"(func.func @forever(%x: i64) -> i64 {
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %r = scf.while (%i = %one) : (i64) -> i64 {
    %go_on = )" + std::string(condition) +
                        R"(
    scf.condition(%go_on) )" +
                        uses + R"( : i64
  } do {
  ^bb0(%j: i64):
    scf.yield %one : i64
  }
  %zero = arith.subi %r, %r : i64
  return )" + result + R"( : i64
})",
                    {Operand::Of<int64_t>({}, {1})});
    }
  }
  // Also not in what is computed for each element.
  ExpectAborted(R"(func.func @forever(%x: tensor<?xi64>) -> tensor<?xi64> {
  %y = linalg.map ins(%x : tensor<?xi64>) outs(%x : tensor<?xi64>) (%e: i64) {
    scf.while : () -> () {
      %true = arith.constant true
      scf.condition(%true)
    } do {
      scf.yield
    }
    linalg.yield %e : i64
  }
  return %y : tensor<?xi64>
})",
                {Operand::Of<int64_t>({1}, {1})});
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

}  // namespace
}  // namespace lockstep::fragment
