// Fragments that MLIR compiles at the edges of what they take: no dimensions, truths, numbers that
// are none, the least and the greatest, and workers that have nothing of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "runtime/client/session.h"
#include "tests/integration/compiled_fragments_fixture.h"

namespace lockstep::testing {
namespace {

using fragment::Combine;
using fragment::Fragment;
using fragment::Split;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MlirFragmentEdgesTest : public CompiledFragmentsFixture {
 protected:
  static Fragment Text(const std::string& text) {
    return Unwrap(Fragment::Mlir(text, "edge.mlir"));
  }
  std::vector<DRef> Execute(const std::string& text, const std::vector<FragmentInput>& inputs,
                            const std::vector<FragmentOutput>& outputs) {
    return Unwrap(session_->Execute(Text(text), inputs, outputs));
  }
  template <typename T>
  std::vector<T> Collected(const DRef& ref) {
    return Unwrap(Unwrap(session_->Collect(ref)).Elements<T>());
  }
};
INSTANTIATE_TEST_SUITE_P(Workers, MlirFragmentEdgesTest, ::testing::Values(1, 3, 8),
                         ::testing::PrintToStringParamName());

// Of what each worker has, the sum, product, least and greatest.
std::string Reductions(const std::string& type, const std::string& kind, const std::string& low,
                       const std::string& high) {
  const auto reduce = [&](const std::string& name, const std::string& op, const std::string& from) {
    return "  %" + name + "_of = arith.constant " + from + " : " + type + "\n  %" + name +
           "_0 = tensor.splat %" + name + "_of : tensor<" + type + ">\n  %" + name +
           " = linalg.reduce { arith." + op + " } ins(%x : tensor<?x" + type + ">) outs(%" + name +
           "_0 : tensor<" + type + ">) dimensions = [0]\n";
  };
  const std::string four =
      "tensor<" + type + ">, tensor<" + type + ">, tensor<" + type + ">, tensor<" + type + ">";
  const bool is_float = kind == "f";
  return "func.func @reductions(%x: tensor<?x" + type + ">) -> (" + four + ") {\n" +
         reduce("sum", "add" + kind, is_float ? "0.0" : "0") +
         reduce("product", "mul" + kind, is_float ? "1.0" : "1") +
         reduce("least", is_float ? "minimumf" : "minsi", high) +
         reduce("most", is_float ? "maximumf" : "maxsi", low) +
         "  return %sum, %product, %least, %most : " + four + "\n}";
}
const std::vector<FragmentOutput> kReduced = {
    {Combine::kAdd}, {Combine::kMul}, {Combine::kMin}, {Combine::kMax}};

TEST_P(MlirFragmentEdgesTest, ElementsAreReducedToTheLeastAndTheGreatestThatThereAre) {
  using Int = std::numeric_limits<int32_t>;
  const std::string i32 = Reductions("i32", "i", "-2147483648", "2147483647");
  const auto of_ints = [&](const std::vector<int32_t>& elements) {
    const auto count = static_cast<int64_t>(elements.size());
    std::vector<int32_t> found;
    for (const DRef& ref :
         Execute(i32, {{HostTensor::Of<int32_t>({count}, elements), Split::kRows}}, kReduced)) {
      found.push_back(Collected<int32_t>(ref)[0]);
    }
    return found;
  };
  EXPECT_THAT(of_ints({}), ElementsAre(0, 1, Int::max(), Int::min()));
  EXPECT_THAT(of_ints({Int::max(), Int::max(), Int::max()}),
              ElementsAre(Int::max() - 2, Int::max(), Int::max(), Int::max()));
  EXPECT_THAT(of_ints({Int::min(), 1}), ElementsAre(Int::min() + 1, Int::min(), Int::min(), 1));

  const std::string f32 = Reductions("f32", "f", "0xFF800000", "0x7F800000");
  const auto of_floats = [&](const std::vector<float>& elements) {
    const auto count = static_cast<int64_t>(elements.size());
    std::vector<float> found;
    for (const DRef& ref :
         Execute(f32, {{HostTensor::Of<float>({count}, elements), Split::kRows}}, kReduced)) {
      found.push_back(Collected<float>(ref)[0]);
    }
    return found;
  };
  EXPECT_THAT(of_floats({}), ElementsAre(0, 1, INFINITY, -INFINITY));
  EXPECT_THAT(of_floats({-2, INFINITY}), ElementsAre(INFINITY, -INFINITY, -2, INFINITY));
  // What is no number is in every result, whichever worker has it.
  for (size_t at = 0; at < 3; ++at) {
    std::vector<float> elements = {1, 2, 3};
    elements[at] = NAN;
    for (const float found : of_floats(elements)) EXPECT_TRUE(std::isnan(found)) << at;
  }
  const std::vector<float> zeros = of_floats({0.0F, -0.0F});
  EXPECT_TRUE(std::signbit(zeros[2]));
  EXPECT_FALSE(std::signbit(zeros[3]));
}

TEST_P(MlirFragmentEdgesTest, TruthsAreSplitByColumns) {
  constexpr char kText[] = R"(
func.func @truths(%x: tensor<2x?xi1>) -> (tensor<2x?xi1>, tensor<2xi1>, tensor<2xi1>) {
  %true = arith.constant true
  %false = arith.constant false
  %no = linalg.map ins(%x : tensor<2x?xi1>) outs(%x : tensor<2x?xi1>) (%e: i1) {
    %n = arith.xori %e, %true : i1
    linalg.yield %n : i1
  }
  %falses = tensor.splat %false : tensor<2xi1>
  %trues = tensor.splat %true : tensor<2xi1>
  %any = linalg.reduce { arith.ori } ins(%x : tensor<2x?xi1>) outs(%falses : tensor<2xi1>) dimensions = [1]
  %all = linalg.reduce { arith.andi } ins(%x : tensor<2x?xi1>) outs(%trues : tensor<2xi1>) dimensions = [1]
  return %no, %any, %all : tensor<2x?xi1>, tensor<2xi1>, tensor<2xi1>
})";
  for (const int64_t columns : {0, 1, 5, 11}) {
    // All but the last one of the first row, and only the first one of the second.
    HostTensor x{DType::kBool, {2, columns}, std::string(static_cast<size_t>(2 * columns), '\0')};
    for (int64_t i = 0; i < columns; ++i) {
      x.data[static_cast<size_t>(i)] = i + 1 < columns ? 1 : 0;
      x.data[static_cast<size_t>(columns + i)] = i == 0 ? 1 : 0;
    }
    const std::vector<DRef> results = Execute(
        kText, {{x, Split::kColumns}}, {{Combine::kColumns}, {Combine::kMax}, {Combine::kMin}});
    std::string no = x.data;
    for (char& truth : no) truth = static_cast<char>(1 - truth);
    EXPECT_EQ(Unwrap(session_->Collect(results[0])).data, no);
    const std::string any{columns > 1 ? '\1' : '\0', columns > 0 ? '\1' : '\0'};
    EXPECT_EQ(Unwrap(session_->Collect(results[1])).data, any) << columns;
    const std::string all{columns > 0 ? '\0' : '\1', columns > 1 ? '\0' : '\1'};
    EXPECT_EQ(Unwrap(session_->Collect(results[2])).data, all) << columns;
    EXPECT_THAT(Message(session_
                            ->Execute(Text(kText), {{x, Split::kColumns}},
                                      {{Combine::kColumns}, {Combine::kAdd}, {Combine::kMin}})
                            .status()),
                HasSubstr("max says whether any is true"));
  }
}

// Numbers, and tensors without dimensions, take each other's place.
TEST_P(MlirFragmentEdgesTest, NumbersAndTensorsWithoutDimensionsAreAlike) {
  constexpr char kText[] = R"(
func.func @both(%a: f64, %t: tensor<f64>, %b: i1) -> (f64, tensor<f64>, i1) {
  %u = tensor.extract %t[] : tensor<f64>
  %s = arith.addf %a, %u : f64
  %d = arith.subf %a, %u : f64
  %e = tensor.from_elements %d : tensor<f64>
  return %s, %e, %b : f64, tensor<f64>, i1
})";
  const DRef three = Unwrap(session_->Place(HostTensor::Of<double>({}, {3.0}), Split::kNone));
  const std::vector<FragmentInput> ones = {1, 1.0, HostTensor::Of<double>({}, {1.0})};
  for (const FragmentInput& one : ones) {
    for (const auto& [a, t, difference] :
         std::vector<std::tuple<FragmentInput, FragmentInput, double>>{{three, one, 2},
                                                                       {one, three, -2}}) {
      const std::vector<DRef> results =
          Execute(kText, {a, t, true}, std::vector<FragmentOutput>(3));
      EXPECT_THAT(Collected<double>(results[0]), ElementsAre(4));
      EXPECT_THAT(Collected<double>(results[1]), ElementsAre(difference));
      EXPECT_EQ(Unwrap(session_->Collect(results[2])).data, std::string(1, '\1'));
    }
  }
}

constexpr char kTimes[] = R"(
func.func @times(%x: tensor<?xi64>, %y: tensor<?xi64>) -> tensor<?xi64> {
  %r = arith.muli %x, %y : tensor<?xi64>
  return %r : tensor<?xi64>
})";

// Factors of products, one of each worker: taken twice as they lie, they make squares.
TEST_P(MlirFragmentEdgesTest, PartsOfProductsAreTakenTwiceAsTheyLie) {
  constexpr char kProduct[] = R"(
func.func @product(%x: tensor<?x2xi64>) -> tensor<2xi64> {
  %one = arith.constant 1 : i64
  %ones = tensor.splat %one : tensor<2xi64>
  %r = linalg.reduce { arith.muli } ins(%x : tensor<?x2xi64>) outs(%ones : tensor<2xi64>) dimensions = [0]
  return %r : tensor<2xi64>
})";
  const HostTensor x =
      HostTensor::Of<int64_t>({5, 2}, std::vector<int64_t>{1, 2, 3, 2, -1, 2, 5, 2, 7, 2});
  const DRef parts = Execute(kProduct, {{x, Split::kRows}}, {{Combine::kMul}})[0];
  const FragmentInput as_placed(parts, Split::kAsPlaced);
  const DRef squares = Execute(kTimes, {as_placed, as_placed}, {{Combine::kMul}})[0];
  EXPECT_THAT(Collected<int64_t>(squares), ElementsAre(105 * 105, 32 * 32));
  EXPECT_THAT(Collected<int64_t>(parts), ElementsAre(-105, 32)) << "nothing writes to it";
}

// An argument that is a result, and one value that is two: each is a register of its own.
TEST_P(MlirFragmentEdgesTest, ResultsAreNeverOneMemory) {
  constexpr char kText[] = R"(
func.func @same(%x: tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>, tensor<?xi64>) {
  %y = arith.addi %x, %x : tensor<?xi64>
  return %x, %y, %y : tensor<?xi64>, tensor<?xi64>, tensor<?xi64>
})";
  const DRef x = Unwrap(session_->Place(HostTensor::Of<int64_t>({2}, {1, 2}), Split::kNone));
  const DRef zeros = Unwrap(session_->Call(Unwrap(session_->GetFunction("lockstep.full")), Shape{2},
                                           int64_t{0}, DType::kInt64));
  const std::vector<DRef> results =
      Execute(kText, {x}, std::vector<FragmentOutput>(3, {Combine::kNone, Shape{2}}));
  const DRef copy = Unwrap(session_->GetFunction("lockstep.copy"));
  for (const size_t written : {0, 1}) (void)Unwrap(session_->Call(copy, zeros, results[written]));
  EXPECT_THAT(Collected<int64_t>(x), ElementsAre(1, 2));
  EXPECT_THAT(Collected<int64_t>(results[0]), ElementsAre(0, 0));
  EXPECT_THAT(Collected<int64_t>(results[1]), ElementsAre(0, 0));
  EXPECT_THAT(Collected<int64_t>(results[2]), ElementsAre(2, 4));
}

// What a worker has of its own is in the sum, though it has no rows of what is given with it.
TEST_P(MlirFragmentEdgesTest, WorkersWithoutRowsAddWhatTheyHaveOfTheirOwn) {
  constexpr char kText[] = R"(
func.func @more(%own: tensor<i64>, %x: tensor<?xi64>) -> (tensor<i64>, tensor<?xi64>) {
  %sum = linalg.reduce { arith.addi } ins(%x : tensor<?xi64>) outs(%own : tensor<i64>) dimensions = [0]
  return %sum, %x : tensor<i64>, tensor<?xi64>
})";
  const HostTensor many = HostTensor::Of<int64_t>({8}, {1, 2, 3, 4, 5, 6, 7, 8});
  const HostTensor one = HostTensor::Of<int64_t>({1}, {100});
  const HostTensor zero = HostTensor::Of<int64_t>({}, {0});
  for (const Combine first : {Combine::kNone, Combine::kAdd}) {
    const DRef own = Execute(kText, {zero, {many, Split::kRows}}, {{first}, {Combine::kRows}})[0];
    const std::vector<DRef> results = Execute(kText, {{own, Split::kAsPlaced}, {one, Split::kRows}},
                                              {{Combine::kAdd}, {Combine::kRows}});
    EXPECT_THAT(Collected<int64_t>(results[0]), ElementsAre(136));
    EXPECT_THAT(Collected<int64_t>(results[1]), ElementsAre(100));
  }
}

TEST_P(MlirFragmentEdgesTest, ALoopWithoutEndIsNamedAtItsDeadline) {
  constexpr char kText[] = R"(
func.func @forever(%x: tensor<?xf64>) -> tensor<?xf64> {
  scf.while : () -> () {
    %true = arith.constant true
    scf.condition(%true)
  } do {
    scf.yield
  }
  return %x : tensor<?xf64>
})";
  SessionOptions options;
  options.command_timeout = std::chrono::milliseconds(100);
  Session session = Unwrap(cluster_->Connect(options));
  const HostTensor x = HostTensor::Of<double>({1}, {1.0});
  (void)Unwrap(session.Execute(Text(kText), {{x, Split::kRows}}, {{Combine::kRows}}));
  const Status status = session.SyncAll();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("worker rank 0"), HasSubstr("edge.mlir")));
  EXPECT_EQ(session.Reset(), OkStatus());
  EXPECT_EQ(session.SyncAll(), OkStatus());
}

TEST_P(MlirFragmentEdgesTest, BytecodeIsAFragmentLikeItsText) {
  const std::string bytecode =
      support::ReadFile("tests/unit/runtime/fragment/testdata/twice.mlirbc");
  const CompiledFragment twice =
      Unwrap(session_->Compile(Unwrap(Fragment::Mlir(bytecode, "twice.mlirbc"))));
  EXPECT_EQ(twice.signature().ToString(), "twice(float64[?]) -> (float64[?])");
  const HostTensor x = HostTensor::Of<double>({5}, {1, -2, 3, 0.5, 5});
  const DRef y = Unwrap(session_->Execute(twice, {{x, Split::kRows}}, {{Combine::kRows}}))[0];
  EXPECT_THAT(Collected<double>(y), ElementsAre(2, -4, 6, 1, 10));
  const Status cut =
      session_->Compile(Unwrap(Fragment::Mlir(bytecode.substr(0, 60), "cut.mlirbc"))).status();
  EXPECT_EQ(cut.code(), StatusCode::kInvalidArgument) << cut;
  EXPECT_THAT(Message(cut), HasSubstr("cut.mlirbc"));
}

TEST_P(MlirFragmentEdgesTest, MoreArgumentsThanAFragmentMayHaveAreRefused) {
  std::string text = "func.func @many(%a: f64";
  for (int i = 0; i < 64; ++i) text += ", %a" + std::to_string(i) + ": f64";
  const Status status = session_->Compile(Text(text + ") -> f64 {\n  return %a : f64\n}")).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(Message(status), AllOf(HasSubstr("edge.mlir:1:1"), HasSubstr("at most 64"),
                                     ::testing::Not(HasSubstr("rank"))));
}

}  // namespace
}  // namespace lockstep::testing
