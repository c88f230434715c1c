// Fragments as programs have them: graphs, clusters, and operations that move data.
#include "tests/unit/runtime/fragment/mlir/fragment_object.h"

namespace lockstep::fragment {
namespace {

TEST(FragmentProgramTest, AStepOfPageRankGathersThroughIndices) {
  FragmentObject object(R"(
func.func @step(%offsets: tensor<?xi64>, %targets: tensor<?xi32>, %rank: tensor<?xf64>, %degree: tensor<?xf64>, %damping: f64) -> tensor<?xf64> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant 1.0 : f64
  %zero = arith.constant 0.0 : f64
  %n1 = tensor.dim %offsets, %c0 : tensor<?xi64>
  %n = arith.subi %n1, %c1 : index
  %e = tensor.empty(%n) : tensor<?xf64>
  %total = tensor.dim %rank, %c0 : tensor<?xf64>
  %ti = arith.index_cast %total : index to i64
  %tf = arith.sitofp %ti : i64 to f64
  %rest = arith.subf %one, %damping : f64
  %base = arith.divf %rest, %tf : f64
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %e) -> tensor<?xf64> {
    %i1 = arith.addi %i, %c1 : index
    %b = tensor.extract %offsets[%i] : tensor<?xi64>
    %t = tensor.extract %offsets[%i1] : tensor<?xi64>
    %bi = arith.index_cast %b : i64 to index
    %tix = arith.index_cast %t : i64 to index
    %s = scf.for %k = %bi to %tix step %c1 iter_args(%sum = %zero) -> f64 {
      %j = tensor.extract %targets[%k] : tensor<?xi32>
      %ji = arith.index_cast %j : i32 to index
      %r = tensor.extract %rank[%ji] : tensor<?xf64>
      %d = tensor.extract %degree[%ji] : tensor<?xf64>
      %q = arith.divf %r, %d : f64
      %u = arith.addf %sum, %q : f64
      scf.yield %u : f64
    }
    %sd = arith.mulf %s, %damping : f64
    %v = arith.addf %base, %sd : f64
    %next = tensor.insert %v into %acc[%i] : tensor<?xf64>
    scf.yield %next : tensor<?xf64>
  }
  return %y : tensor<?xf64>
}
)");
  // Edges into each of 3 nodes of 4: 0 <- 1, 2; 1 <- 0; 2 has none.
  const auto results =
      object.Results({Operand::Of<int64_t>({4}, {0, 2, 3, 3}), Operand::Of<int32_t>({3}, {1, 2, 0}),
                      Operand::Of<double>({4}, {0.25, 0.5, 0.125, 0.125}),
                      Operand::Of<double>({4}, {1, 2, 1, 1}), Operand::Of<double>({}, {0.5})});
  EXPECT_EQ(results[0].As<double>(),
            (std::vector<double>{0.125 + 0.5 * (0.25 + 0.125), 0.125 + 0.5 * 0.25, 0.125}));
  // An edge from a node that there is not.
  Call call;
  EXPECT_EQ(
      object.Run(call, {Operand::Of<int64_t>({2}, {0, 1}), Operand::Of<int32_t>({1}, {4}),
                        Operand::Of<double>({4}, {1, 1, 1, 1}),
                        Operand::Of<double>({4}, {1, 1, 1, 1}), Operand::Of<double>({}, {0.5})}),
      LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS);
}

TEST(FragmentProgramTest, AStepOfKMeansSumsTheRowsOfEachCluster) {
  FragmentObject object(R"(
#x = affine_map<(i, k, j) -> (i, j)>
#c = affine_map<(i, k, j) -> (k, j)>
#d = affine_map<(i, k, j) -> (i, k)>
func.func @step(%x: tensor<?x4xf64>, %c: tensor<3x4xf64>) -> (tensor<3x4xf64>, tensor<3xf64>, f64) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant 0.0 : f64
  %one = arith.constant 1.0 : f64
  %big = arith.constant 1.0e300 : f64
  %n = tensor.dim %x, %c0 : tensor<?x4xf64>
  %e = tensor.empty(%n) : tensor<?x3xf64>
  %z = linalg.fill ins(%zero : f64) outs(%e : tensor<?x3xf64>) -> tensor<?x3xf64>
  %dist = linalg.generic {indexing_maps = [#x, #c, #d], iterator_types = ["parallel", "parallel", "reduction"]}
     ins(%x, %c : tensor<?x4xf64>, tensor<3x4xf64>) outs(%z : tensor<?x3xf64>) {
  ^bb0(%a: f64, %b: f64, %s: f64):
    %t = arith.subf %a, %b : f64
    %q = arith.mulf %t, %t : f64
    %u = arith.addf %s, %q : f64
    linalg.yield %u : f64
  } -> tensor<?x3xf64>
  %sums0 = arith.constant dense<0.0> : tensor<3x4xf64>
  %counts0 = arith.constant dense<0.0> : tensor<3xf64>
  %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%sums = %sums0, %counts = %counts0, %loss = %zero) -> (tensor<3x4xf64>, tensor<3xf64>, f64) {
    %best:2 = scf.for %k = %c0 to %c3 step %c1 iter_args(%at = %c0, %min = %big) -> (index, f64) {
      %v = tensor.extract %dist[%i, %k] : tensor<?x3xf64>
      %less = arith.cmpf olt, %v, %min : f64
      %na = arith.select %less, %k, %at : index
      %nm = arith.select %less, %v, %min : f64
      scf.yield %na, %nm : index, f64
    }
    %row = tensor.extract_slice %x[%i, 0] [1, 4] [1, 1] : tensor<?x4xf64> to tensor<4xf64>
    %old = tensor.extract_slice %sums[%best#0, 0] [1, 4] [1, 1] : tensor<3x4xf64> to tensor<4xf64>
    %new = arith.addf %row, %old : tensor<4xf64>
    %sums1 = tensor.insert_slice %new into %sums[%best#0, 0] [1, 4] [1, 1] : tensor<4xf64> into tensor<3x4xf64>
    %oc = tensor.extract %counts[%best#0] : tensor<3xf64>
    %nc = arith.addf %oc, %one : f64
    %counts1 = tensor.insert %nc into %counts[%best#0] : tensor<3xf64>
    %l = arith.addf %loss, %best#1 : f64
    scf.yield %sums1, %counts1, %l : tensor<3x4xf64>, tensor<3xf64>, f64
  }
  return %r#0, %r#1, %r#2 : tensor<3x4xf64>, tensor<3xf64>, f64
}
)");
  const std::vector<double> centers = {0, 0, 0, 0, 10, 10, 10, 10, -9, 5, 5, 5};
  for (const int64_t rows : {0, 1, 50}) {
    const std::vector<double> x = Numbers<double>(rows * 4);
    std::vector<double> sums(12, 0), counts(3, 0);
    double loss = 0;
    for (int64_t i = 0; i < rows; ++i) {
      int best = 0;
      double least = 1e300;
      for (int k = 0; k < 3; ++k) {
        double distance = 0;
        for (int j = 0; j < 4; ++j) {
          distance += (x[i * 4 + j] - centers[k * 4 + j]) * (x[i * 4 + j] - centers[k * 4 + j]);
        }
        if (distance < least) {
          best = k;
          least = distance;
        }
      }
      for (int j = 0; j < 4; ++j) sums[best * 4 + j] += x[i * 4 + j];
      counts[best] += 1;
      loss += least;
    }
    const auto results =
        object.Results({Operand::Of<double>({rows, 4}, x), Operand::Of<double>({3, 4}, centers)});
    EXPECT_EQ(results[0].As<double>(), sums);
    EXPECT_EQ(results[1].As<double>(), counts);
    EXPECT_EQ(results[2].As<double>()[0], loss);
  }
}

TEST(FragmentProgramTest, DataIsPaddedConcatenatedTransposedReshapedAndChosen) {
  FragmentObject object(R"(
func.func @misc(%x: tensor<?x4xf32>, %b: i1, %i: i64) -> (tensor<?x6xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<4x?xf32>, tensor<?xf32>, tensor<8xi64>, tensor<?x4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c0 : tensor<?x4xf32>
  %zero = arith.constant 0.0 : f32
  %pad = tensor.pad %x low[0, 1] high[0, 1] { ^bb0(%p: index, %q: index): tensor.yield %zero : f32 } : tensor<?x4xf32> to tensor<?x6xf32>
  %cat = tensor.concat dim(0) %x, %x : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %if = scf.if %b -> tensor<?x4xf32> {
    %t = arith.addf %x, %x : tensor<?x4xf32>
    scf.yield %t : tensor<?x4xf32>
  } else {
    scf.yield %x : tensor<?x4xf32>
  }
  %et = tensor.empty(%n) : tensor<4x?xf32>
  %tr = linalg.transpose ins(%x : tensor<?x4xf32>) outs(%et : tensor<4x?xf32>) permutation = [1, 0]
  %col = tensor.collapse_shape %x [[0, 1]] : tensor<?x4xf32> into tensor<?xf32>
  %e8 = tensor.empty() : tensor<8xi64>
  %fa = scf.forall (%k) in (8) shared_outs(%o = %e8) -> tensor<8xi64> {
    %v = arith.index_cast %k : index to i64
    %f = tensor.from_elements %v : tensor<1xi64>
    scf.forall.in_parallel { tensor.parallel_insert_slice %f into %o[%k] [1] [1] : tensor<1xi64> into tensor<8xi64> }
  }
  %gen = tensor.generate %n { ^bb0(%p: index, %q: index):
    %v = tensor.extract %x[%p, %q] : tensor<?x4xf32>
    %w = arith.mulf %v, %v : f32
    tensor.yield %w : f32 } : tensor<?x4xf32>
  return %pad, %cat, %if, %tr, %col, %fa, %gen : tensor<?x6xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<4x?xf32>, tensor<?xf32>, tensor<8xi64>, tensor<?x4xf32>
}
)");
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const uint8_t choice : {0, 1}) {
    const auto results =
        object.Results({Operand::Of<float>({2, 4}, x), Operand::Of<uint8_t>({}, {choice}),
                        Operand::Of<int64_t>({}, {1})});
    EXPECT_EQ(results[0].As<float>(), (std::vector<float>{0, 1, 2, 3, 4, 0, 0, 5, 6, 7, 8, 0}));
    EXPECT_EQ(results[1].shape, (std::vector<int64_t>{4, 4}));
    EXPECT_EQ(results[1].As<float>(),
              (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}));
    std::vector<float> chosen = x;
    for (float& value : chosen) value *= choice == 1 ? 2 : 1;
    EXPECT_EQ(results[2].As<float>(), chosen);
    EXPECT_EQ(results[3].shape, (std::vector<int64_t>{4, 2}));
    EXPECT_EQ(results[3].As<float>(), (std::vector<float>{1, 5, 2, 6, 3, 7, 4, 8}));
    EXPECT_EQ(results[4].shape, std::vector<int64_t>{8});
    EXPECT_EQ(results[4].As<float>(), x);
    EXPECT_EQ(results[5].As<int64_t>(), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(results[6].As<float>(), (std::vector<float>{1, 4, 9, 16, 25, 36, 49, 64}));
  }
}

}  // namespace
}  // namespace lockstep::fragment
