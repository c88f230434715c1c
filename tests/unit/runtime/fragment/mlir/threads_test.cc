// Loops that several threads share give what one gives.
#include "runtime/fragment/loop_threads.h"

#include <atomic>
#include <thread>

#include "tests/unit/runtime/fragment/mlir/fragment_object.h"

namespace lockstep::fragment {
namespace {

// With counted calls of parallel().
struct ThreadedCall : Call {
  LoopThreads threads{4};
  LockstepFragmentContext served{};
  std::atomic<int> loops = 0;

  explicit ThreadedCall(bool with_blas = true) : Call(with_blas) {
    threads.ServeLoopsOf(served);
    context.threads = this;
    context.parallel = [](LockstepFragmentContext* own, LockstepFragmentBody body,
                          const void* frame, int64_t count, int64_t grain) {
      auto& call = *static_cast<ThreadedCall*>(own->threads);
      ++call.loops;
      own->threads = &call.threads;
      const int32_t code = call.served.parallel(own, body, frame, count, grain);
      own->threads = &call;
      return code;
    };
  }
};

// Rounds differently wherever a loop is cut otherwise: exp on vectors is not exp on scalars.
constexpr char kRoundingLoops[] = R"(
#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
func.func @f(%x: tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %rows = tensor.dim %x, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %x, %c1 : tensor<?x?xf32>
  %e = math.exp %x : tensor<?x?xf32>
  %er = tensor.empty(%rows) : tensor<?xf32>
  %zr = linalg.fill ins(%zero : f32) outs(%er : tensor<?xf32>) -> tensor<?xf32>
  %r = linalg.reduce { arith.addf } ins(%e : tensor<?x?xf32>) outs(%zr : tensor<?xf32>) dimensions = [1]
  %ec = tensor.empty(%columns) : tensor<?xf32>
  %zc = linalg.fill ins(%zero : f32) outs(%ec : tensor<?xf32>) -> tensor<?xf32>
  %c = linalg.reduce { arith.addf } ins(%e : tensor<?x?xf32>) outs(%zc : tensor<?xf32>) dimensions = [0]
  %ep = tensor.empty(%rows, %rows) : tensor<?x?xf32>
  %zp = linalg.fill ins(%zero : f32) outs(%ep : tensor<?x?xf32>) -> tensor<?x?xf32>
  %p = linalg.matmul_transpose_b ins(%e, %x : tensor<?x?xf32>, tensor<?x?xf32>) outs(%zp : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %e, %r, %c, %p : tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?x?xf32>
})";

TEST(FragmentThreadsTest, ResultsHaveTheSameBitsAsWithOneThread) {
  FragmentObject object(kRoundingLoops);
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{401, 457}, {3, 70001}, {701, 127}, {5, 4}}) {
    std::vector<float> x(rows * columns);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 10007) / 5003 - 1;
    const Operand argument = Operand::Of<float>({rows, columns}, x);
    for (const bool with_blas : {true, false}) {
      Call one(with_blas);
      ASSERT_EQ(object.Run(one, {argument}), LOCKSTEP_FRAGMENT_OK);
      const std::vector<Operand> expected = object.results;
      ThreadedCall four(with_blas);
      ASSERT_EQ(object.Run(four, {argument}), LOCKSTEP_FRAGMENT_OK);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(object.results[i].bytes == expected[i].bytes)
            << "result " << i << " of " << rows << "x" << columns;
      }
      if (rows * columns < 100) {
        EXPECT_EQ(four.loops, 0) << "this is not worth a thread";
      } else {
        EXPECT_GT(four.loops, 2);
      }
    }
  }
}

TEST(FragmentThreadsTest, TheFirstFailureIsToldAndMemoryIsCounted) {
  FragmentObject object(R"(func.func @f(%a: tensor<?xi64>, %b: tensor<?xi64>) -> tensor<?xi64> {
  %c = arith.divsi %a, %b : tensor<?xi64>
  return %c : tensor<?xi64>
})");
  constexpr int64_t kCount = 1'000'000;
  const auto a = Operand::Of<int64_t>({kCount}, std::vector<int64_t>(kCount, INT64_MIN));
  std::vector<int64_t> b(kCount, 3);
  b[700'001] = 0;
  b[300'007] = -1;
  b[999'999] = 0;
  for (int i = 0; i < 10; ++i) {
    ThreadedCall call;
    EXPECT_EQ(object.Run(call, {a, Operand::Of<int64_t>({kCount}, b)}),
              LOCKSTEP_FRAGMENT_DIVISION_OVERFLOW);
    EXPECT_EQ(call.context.error.line, 2u);
    EXPECT_STREQ(call.context.error.operation, "arith.divsi");
    EXPECT_EQ(call.loops, 1);
  }
}

TEST(FragmentThreadsTest, AnAbortEndsAllThreads) {
  // 2^40 iterations, which 16 elements share.
  FragmentObject object(R"(
#in = affine_map<(i, j, k) -> (i)>
#along = affine_map<(i, j, k) -> (j)>
#other = affine_map<(i, j, k) -> (k)>
func.func @f(%x: tensor<?xf64>, %y: tensor<?xf64>) -> tensor<?xf64> {
  %zero = arith.constant 0.0 : f64
  %e = linalg.fill ins(%zero : f64) outs(%x : tensor<?xf64>) -> tensor<?xf64>
  %r = linalg.generic {indexing_maps = [#in, #along, #other, #in], iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%x, %y, %y : tensor<?xf64>, tensor<?xf64>, tensor<?xf64>) outs(%e : tensor<?xf64>) {
  ^bb0(%a: f64, %b: f64, %c: f64, %s: f64):
    %t = arith.divf %b, %a : f64
    %d = arith.addf %t, %c : f64
    %u = arith.addf %s, %d : f64
    linalg.yield %u : f64
  } -> tensor<?xf64>
  return %r : tensor<?xf64>
})");
  ThreadedCall call;
  std::thread aborter([&call] {
    while (call.loops == 0) std::this_thread::yield();
    call.abort = 1;
  });
  EXPECT_EQ(object.Run(call, {Operand::Of<double>({16}, std::vector<double>(16, 3)),
                              Operand::Of<double>({1 << 18}, std::vector<double>(1 << 18, 1))}),
            LOCKSTEP_FRAGMENT_ABORTED);
  EXPECT_GE(call.loops, 1);
  aborter.join();
}

}  // namespace
}  // namespace lockstep::fragment
