// Random calls of fragments, one after the other and in plans, compared with what the same numbers
// make in this process: however inputs lie, are split, and results are combined.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/client/session.h"
#include "runtime/fragment/plan_call.h"
#include "runtime/plan/program.h"
#include "tests/integration/compiled_fragments_fixture.h"
#include "tests/support/random_layouts.h"

namespace lockstep::testing {
namespace {

using fragment::Combine;
using fragment::Fragment;
using fragment::Split;
using support::RandomLayouts;

// Unsigned: it wraps around, as i64 of a fragment does.
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<uint64_t> elements = {};

  static Matrix Of(int64_t rows, int64_t columns, uint64_t element = 0) {
    return {rows, columns, std::vector<uint64_t>(static_cast<size_t>(rows * columns), element)};
  }
  uint64_t& At(int64_t i, int64_t j) { return elements[static_cast<size_t>(i * columns + j)]; }
  uint64_t At(int64_t i, int64_t j) const { return elements[static_cast<size_t>(i * columns + j)]; }
  Shape shape() const { return {rows, columns}; }
  HostTensor ToHost() const {
    std::vector<int64_t> numbers;
    for (const uint64_t element : elements) numbers.push_back(static_cast<int64_t>(element));
    return HostTensor::Of<int64_t>(shape(), numbers);
  }
};

// x * by + y
Matrix Blend(const Matrix& x, const Matrix& y, int64_t by) {
  Matrix result = x;
  for (size_t i = 0; i < result.elements.size(); ++i) {
    result.elements[i] = x.elements[i] * static_cast<uint64_t>(by) + y.elements[i];
  }
  return result;
}
Matrix Turn(const Matrix& x) {
  Matrix result = Matrix::Of(x.columns, x.rows);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.columns; ++j) result.At(j, i) = x.At(i, j);
  }
  return result;
}
Matrix Product(const Matrix& x, const Matrix& y) {
  Matrix result = Matrix::Of(x.rows, y.columns);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t k = 0; k < x.columns; ++k) {
      for (int64_t j = 0; j < y.columns; ++j) result.At(i, j) += x.At(i, k) * y.At(k, j);
    }
  }
  return result;
}
// Of each column: the sum, the greatest, the least.
std::vector<Matrix> Columns(const Matrix& x) {
  std::vector<Matrix> results = {
      Matrix::Of(1, x.columns),
      Matrix::Of(1, x.columns, static_cast<uint64_t>(std::numeric_limits<int64_t>::min())),
      Matrix::Of(1, x.columns, static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))};
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.columns; ++j) {
      const auto element = static_cast<int64_t>(x.At(i, j));
      results[0].At(0, j) += x.At(i, j);
      uint64_t& most = results[1].At(0, j);
      most = static_cast<uint64_t>(std::max(static_cast<int64_t>(most), element));
      uint64_t& least = results[2].At(0, j);
      least = static_cast<uint64_t>(std::min(static_cast<int64_t>(least), element));
    }
  }
  return results;
}
// What lies where in the whole.
Matrix Places(const Matrix& x) {
  Matrix result = x;
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.columns; ++j) {
      result.At(i, j) += static_cast<uint64_t>(3 * i + 5 * j + 7 * x.rows + x.columns);
    }
  }
  return result;
}

constexpr char kBlend[] = R"(
func.func @blend(%x: tensor<?x?xi64>, %y: tensor<?x?xi64>, %by: i64) -> tensor<?x?xi64> {
  %r = linalg.map ins(%x, %y : tensor<?x?xi64>, tensor<?x?xi64>) outs(%x : tensor<?x?xi64>) (%a: i64, %b: i64) {
    %m = arith.muli %a, %by : i64
    %s = arith.addi %m, %b : i64
    linalg.yield %s : i64
  }
  return %r : tensor<?x?xi64>
})";
constexpr char kTurn[] = R"(
func.func @turn(%x: tensor<?x?xi64>) -> tensor<?x?xi64> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?x?xi64>
  %m = tensor.dim %x, %c1 : tensor<?x?xi64>
  %e = tensor.empty(%m, %n) : tensor<?x?xi64>
  %r = linalg.transpose ins(%x : tensor<?x?xi64>) outs(%e : tensor<?x?xi64>) permutation = [1, 0]
  return %r : tensor<?x?xi64>
})";
constexpr char kProduct[] = R"(
func.func @product(%x: tensor<?x?xi64>, %y: tensor<?x?xi64>) -> tensor<?x?xi64> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %n = tensor.dim %x, %c0 : tensor<?x?xi64>
  %m = tensor.dim %y, %c1 : tensor<?x?xi64>
  %e = tensor.empty(%n, %m) : tensor<?x?xi64>
  %z = linalg.fill ins(%zero : i64) outs(%e : tensor<?x?xi64>) -> tensor<?x?xi64>
  %r = linalg.matmul ins(%x, %y : tensor<?x?xi64>, tensor<?x?xi64>) outs(%z : tensor<?x?xi64>) -> tensor<?x?xi64>
  return %r : tensor<?x?xi64>
})";
constexpr char kColumns[] = R"(
func.func @columns(%x: tensor<?x?xi64>) -> (tensor<1x?xi64>, tensor<1x?xi64>, tensor<1x?xi64>) {
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %low = arith.constant -9223372036854775808 : i64
  %high = arith.constant 9223372036854775807 : i64
  %m = tensor.dim %x, %c1 : tensor<?x?xi64>
  %e = tensor.empty(%m) : tensor<?xi64>
  %zeros = linalg.fill ins(%zero : i64) outs(%e : tensor<?xi64>) -> tensor<?xi64>
  %lows = linalg.fill ins(%low : i64) outs(%e : tensor<?xi64>) -> tensor<?xi64>
  %highs = linalg.fill ins(%high : i64) outs(%e : tensor<?xi64>) -> tensor<?xi64>
  %s = linalg.reduce { arith.addi } ins(%x : tensor<?x?xi64>) outs(%zeros : tensor<?xi64>) dimensions = [0]
  %g = linalg.reduce { arith.maxsi } ins(%x : tensor<?x?xi64>) outs(%lows : tensor<?xi64>) dimensions = [0]
  %l = linalg.reduce { arith.minsi } ins(%x : tensor<?x?xi64>) outs(%highs : tensor<?xi64>) dimensions = [0]
  %s1 = tensor.expand_shape %s [[0, 1]] output_shape [1, %m] : tensor<?xi64> into tensor<1x?xi64>
  %g1 = tensor.expand_shape %g [[0, 1]] output_shape [1, %m] : tensor<?xi64> into tensor<1x?xi64>
  %l1 = tensor.expand_shape %l [[0, 1]] output_shape [1, %m] : tensor<?xi64> into tensor<1x?xi64>
  return %s1, %g1, %l1 : tensor<1x?xi64>, tensor<1x?xi64>, tensor<1x?xi64>
})";
constexpr char kPlaces[] = R"(
func.func @places(%x: tensor<?x?xi64>, %i0: index {lockstep.offset = array<i64: 0, 0>},
                  %j0: index {lockstep.offset = array<i64: 0, 1>},
                  %rows: index {lockstep.global_size = array<i64: 0, 0>},
                  %columns: index {lockstep.global_size = array<i64: 0, 1>}) -> tensor<?x?xi64> {
  %c3 = arith.constant 3 : index
  %c5 = arith.constant 5 : index
  %c7 = arith.constant 7 : index
  %r7 = arith.muli %rows, %c7 : index
  %whole = arith.addi %r7, %columns : index
  %r = linalg.map ins(%x : tensor<?x?xi64>) outs(%x : tensor<?x?xi64>) (%a: i64) {
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %gi = arith.addi %i, %i0 : index
    %gj = arith.addi %j, %j0 : index
    %i3 = arith.muli %gi, %c3 : index
    %j5 = arith.muli %gj, %c5 : index
    %ij = arith.addi %i3, %j5 : index
    %w = arith.addi %ij, %whole : index
    %v = arith.index_cast %w : index to i64
    %s = arith.addi %a, %v : i64
    linalg.yield %s : i64
  }
  return %r : tensor<?x?xi64>
})";

using Fragments = std::map<std::string, CompiledFragment>;

// Where values are, and what calls fragments: a session, or a plan that is made. Values are
// numbered as they come.
class Backend {
 public:
  struct Input {
    int value = 0;
    Split split = Split::kNone;
    std::optional<int64_t> number = {};
  };
  using Outputs = std::vector<fragment::Output>;

  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;
  // A tensor that lies so.
  virtual int Place(const Matrix& matrix, const plan::Layout& layout) = 0;
  virtual std::vector<int> Call(const std::string& fragment, const std::vector<Input>& inputs,
                                const Outputs& outputs) = 0;
  virtual plan::Layout LayoutOf(int value) const = 0;
  virtual void Expect(int value, const Matrix& expected) = 0;
};

void ExpectElements(Session& session, const DRef& ref, const Matrix& expected) {
  EXPECT_EQ(Unwrap(session.Collect(ref)), expected.ToHost());
}

class Calls : public Backend {
 public:
  Calls(Session& session, const Fragments& fragments) : session_(session), fragments_(fragments) {}

  int Place(const Matrix& matrix, const plan::Layout& layout) override {
    return Add(Unwrap(session_.Place(matrix.ToHost(), layout)));
  }
  std::vector<int> Call(const std::string& fragment, const std::vector<Input>& inputs,
                        const Outputs& outputs) override {
    std::vector<FragmentInput> given;
    for (const Input& input : inputs) {
      if (input.number.has_value()) {
        given.emplace_back(*input.number);
      } else {
        given.emplace_back(Ref(input.value), input.split);
      }
    }
    std::vector<int> results;
    for (const DRef& ref : Unwrap(session_.Execute(fragments_.at(fragment), given, outputs))) {
      results.push_back(Add(ref));
    }
    return results;
  }
  plan::Layout LayoutOf(int value) const override {
    return Unwrap(session_.LayoutOf(refs_[static_cast<size_t>(value)]));
  }
  void Expect(int value, const Matrix& expected) override {
    ExpectElements(session_, Ref(value), expected);
  }

  // Writes something else to the register: copies of what was there are worth nothing then.
  void Overwrite(int value, const Matrix& matrix) {
    const DRef other = Unwrap(session_.Place(matrix.ToHost(), LayoutOf(value)));
    const DRef copy = Unwrap(session_.GetFunction("lockstep.copy"));
    (void)Unwrap(session_.Call(copy, other, Ref(value)));
  }
  // What each worker has of its own is added up.
  int AddUpKept(const Matrix& x, int value) {
    const DRef kept = Unwrap(
        session_.Execute(fragments_.at("columns"), {{Ref(value), Split::kRows}}, Outputs(3)))[0];
    const FragmentInput own(kept, Split::kAsPlaced, Shape{1, x.columns});
    return Add(
        Unwrap(session_.Execute(fragments_.at("blend"), {own, own, 0}, {{Combine::kAdd}}))[0]);
  }

 private:
  int Add(DRef ref) {
    refs_.push_back(std::move(ref));
    return static_cast<int>(refs_.size()) - 1;
  }
  const DRef& Ref(int value) const { return refs_[static_cast<size_t>(value)]; }

  Session& session_;
  const Fragments& fragments_;
  std::vector<DRef> refs_;
};

class InPlan : public Backend {
 public:
  InPlan(Session& session, const Fragments& fragments, int workers)
      : session_(session), fragments_(fragments), workers_(static_cast<size_t>(workers)) {
    std::iota(workers_.begin(), workers_.end(), 0);
  }

  int Place(const Matrix& matrix, const plan::Layout& layout) override {
    const std::string name = "x" + std::to_string(values_.size());
    registers_.inputs.emplace(name, Unwrap(session_.Place(matrix.ToHost(), layout)));
    return Add(program_.Input(name, layout));
  }
  std::vector<int> Call(const std::string& fragment, const std::vector<Input>& inputs,
                        const Outputs& outputs) override {
    const CompiledFragment& compiled = fragments_.at(fragment);
    std::vector<fragment::PlanInput> given;
    for (const Input& input : inputs) {
      if (input.number.has_value()) {
        given.emplace_back(*input.number);
      } else {
        given.emplace_back(values_[static_cast<size_t>(input.value)], input.split);
      }
    }
    registers_.fragments.emplace(fragment, compiled);
    std::vector<int> results;
    for (const plan::ValueId id :
         Unwrap(fragment::CallFragment(program_, fragment, compiled.signature(), workers_, given,
                                       outputs))
             .results) {
      results.push_back(Add(id));
    }
    return results;
  }
  plan::Layout LayoutOf(int value) const override {
    return program_.LayoutOf(values_[static_cast<size_t>(value)]);
  }
  void Expect(int value, const Matrix& expected) override {
    const std::string name = "y" + std::to_string(value);
    if (!expected_.emplace(name, expected).second) return;
    program_.Output(name, program_.Copy(values_[static_cast<size_t>(value)]));
  }

  void Run() {
    BoundPlan plan = Unwrap(session_.Bind(Unwrap(program_.Build()), registers_));
    for (int i = 0; i < 2; ++i) EXPECT_EQ(plan.Execute(), OkStatus());
    for (const auto& [name, matrix] : expected_) {
      SCOPED_TRACE(name);
      ExpectElements(session_, Unwrap(plan.Output(name)), matrix);
    }
  }

 private:
  int Add(plan::ValueId id) {
    values_.push_back(id);
    return static_cast<int>(values_.size()) - 1;
  }

  Session& session_;
  const Fragments& fragments_;
  std::vector<Rank> workers_;
  plan::ProgramBuilder program_;
  std::vector<plan::ValueId> values_;
  PlanRegisters registers_;
  std::map<std::string, Matrix> expected_;
};

// Makes calls at random, and knows what comes of them.
class RandomCalls {
 public:
  RandomCalls(Backend& backend, int workers, uint32_t seed)
      : backend_(backend), workers_(workers), any_(seed) {
    for (int i = 0; i < 2; ++i) extents_[i] = any_.Below(3) == 0 ? any_.Below(3) : any_.Below(12);
    for (int i = 0; i < 3; ++i) Place();
  }

  void Do() {
    switch (any_.Below(8)) {
      case 0:
        return Place();
      case 1:
      case 2:
        return BlendTwo();
      case 3:
        return TurnOne();
      case 4:
        return Multiply();
      case 5:
        return TakeColumns();
      case 6:
        return TellPlaces();
      default:
        return TakeAsPlaced();
    }
  }
  // One that is known, at random.
  size_t Any() { return static_cast<size_t>(any_.Below(static_cast<int>(known_.size()))); }
  int ValueOf(size_t i) const { return known_[i].first; }
  Matrix& MatrixOf(size_t i) { return known_[i].second; }
  Matrix Another(const Matrix& like) {
    Matrix matrix = like;
    for (uint64_t& element : matrix.elements) element = static_cast<uint64_t>(any_.Below(1000));
    return matrix;
  }
  void ExpectAll() {
    for (const auto& [value, matrix] : known_) {
      SCOPED_TRACE("value " + std::to_string(value));
      backend_.Expect(value, matrix);
    }
  }

 private:
  using Input = Backend::Input;

  void Keep(int value, Matrix matrix) { known_.emplace_back(value, std::move(matrix)); }
  // One of as many rows and columns as another has.
  size_t Like(const Matrix& matrix) {
    std::vector<size_t> alike;
    for (size_t i = 0; i < known_.size(); ++i) {
      if (known_[i].second.shape() == matrix.shape()) alike.push_back(i);
    }
    return alike[static_cast<size_t>(any_.Below(static_cast<int>(alike.size())))];
  }
  int64_t Number() { return any_.Below(7) - 3; }

  void Place() {
    const Matrix matrix = Another(Matrix::Of(extents_[any_.Below(2)], extents_[any_.Below(2)]));
    constexpr Reduction kOps[] = {Reduction::kSum, Reduction::kMin, Reduction::kMax};
    const plan::Layout any =
        any_.AnyLayout(matrix.shape(), any_.AnyMesh(workers_), kOps[any_.Below(3)]);
    const plan::Layout layout =
        Unwrap(plan::Layout::Make(any.shape(), DType::kInt64, any.mesh(), any.placements()));
    Keep(backend_.Place(matrix, layout), matrix);
  }

  struct Way {
    Split split;
    Combine combine;
  };
  Way AnyWay() {
    constexpr Way kWays[] = {{Split::kRows, Combine::kRows},
                             {Split::kColumns, Combine::kColumns},
                             {Split::kNone, Combine::kNone}};
    return kWays[any_.Below(3)];
  }
  // Sometimes the call says it.
  fragment::Output Output(Combine combine, const Matrix& result) {
    if (any_.Below(2) == 0) return {combine};
    return {combine, result.shape()};
  }

  void BlendTwo() {
    const size_t x = Any();
    const size_t y = Like(MatrixOf(x));
    const Way way = AnyWay();
    const int64_t by = Number();
    Matrix result = Blend(MatrixOf(x), MatrixOf(y), by);
    const int value =
        backend_.Call("blend", {{ValueOf(x), way.split}, {ValueOf(y), way.split}, {0, {}, by}},
                      {{way.combine, result.shape()}})[0];
    Keep(value, std::move(result));
  }

  void TurnOne() {
    const size_t x = Any();
    Way way = AnyWay();
    if (way.combine != Combine::kNone) {
      way.combine = way.combine == Combine::kRows ? Combine::kColumns : Combine::kRows;
    }
    Matrix result = Turn(MatrixOf(x));
    const int value =
        backend_.Call("turn", {{ValueOf(x), way.split}}, {{way.combine, result.shape()}})[0];
    Keep(value, std::move(result));
  }

  void Multiply() {
    const size_t x = Any();
    size_t y = Any();
    for (int i = 0; i < 20 && MatrixOf(y).rows != MatrixOf(x).columns; ++i) y = Any();
    if (MatrixOf(y).rows != MatrixOf(x).columns) return;
    const std::vector<std::pair<std::pair<Split, Split>, Combine>> ways = {
        {{Split::kRows, Split::kNone}, Combine::kRows},
        {{Split::kNone, Split::kColumns}, Combine::kColumns},
        {{Split::kColumns, Split::kRows}, Combine::kAdd},
        {{Split::kNone, Split::kNone}, Combine::kNone}};
    const auto& [splits, combine] = ways[static_cast<size_t>(any_.Below(4))];
    Matrix result = Product(MatrixOf(x), MatrixOf(y));
    const int value =
        backend_.Call("product", {{ValueOf(x), splits.first}, {ValueOf(y), splits.second}},
                      {{combine, result.shape()}})[0];
    Keep(value, std::move(result));
  }

  void TakeColumns() {
    const size_t x = Any();
    const Split split = any_.Below(2) == 0 ? Split::kRows : Split::kColumns;
    std::vector<Matrix> results = Columns(MatrixOf(x));
    std::vector<Combine> combines(3, Combine::kColumns);
    if (split == Split::kRows) combines = {Combine::kAdd, Combine::kMax, Combine::kMin};
    Backend::Outputs outputs;
    for (size_t i = 0; i < 3; ++i) outputs.push_back({combines[i], results[i].shape()});
    const std::vector<int> values = backend_.Call("columns", {{ValueOf(x), split}}, outputs);
    for (size_t i = 0; i < 3; ++i) Keep(values[i], results[i]);
  }

  void TellPlaces() {
    const size_t x = Any();
    const Way way = AnyWay();
    Matrix result = Places(MatrixOf(x));
    const int value =
        backend_.Call("places", {{ValueOf(x), way.split}}, {{way.combine, result.shape()}})[0];
    Keep(value, std::move(result));
  }

  // Where it lies on all workers in a way that has a combine. Parts of a sum are blended each.
  void TakeAsPlaced() {
    const size_t x = Any();
    const plan::Layout layout = backend_.LayoutOf(ValueOf(x));
    if (layout.mesh().size() != workers_) return;
    std::optional<Combine> combine;
    if (!layout.PartialAxes().empty()) {
      const StatusOr<Combine> partial = fragment::CombineOf(layout);
      if (!partial.ok() || *partial != Combine::kAdd) return;
      combine = *partial;
    } else {
      const Split split = fragment::SplitOf(layout);
      if (split == Split::kRows) combine = Combine::kRows;
      if (split == Split::kColumns) combine = Combine::kColumns;
      if (split == Split::kNone) combine = Combine::kNone;
    }
    if (!combine.has_value()) return;
    const int64_t by = Number();
    Matrix result = Blend(MatrixOf(x), MatrixOf(x), by);
    const Input as_placed{ValueOf(x), Split::kAsPlaced};
    const int value = backend_.Call("blend", {as_placed, as_placed, {0, {}, by}},
                                    {{*combine, result.shape()}})[0];
    Keep(value, std::move(result));
  }

  Backend& backend_;
  const int workers_;
  RandomLayouts any_;
  int64_t extents_[2] = {};
  std::vector<std::pair<int, Matrix>> known_;
};

class RandomFragmentsTest : public CompiledFragmentsFixture {
 protected:
  void SetUp() override {
    CompiledFragmentsFixture::SetUp();
    const std::pair<const char*, const char*> kTexts[] = {{"blend", kBlend},
                                                          {"turn", kTurn},
                                                          {"product", kProduct},
                                                          {"columns", kColumns},
                                                          {"places", kPlaces}};
    for (const auto& [name, text] : kTexts) {
      fragments_.emplace(name, Unwrap(session_->Compile(Unwrap(Fragment::Mlir(text, name)))));
    }
  }
  Fragments fragments_;
};
INSTANTIATE_TEST_SUITE_P(Workers, RandomFragmentsTest, ::testing::Values(1, 2, 3, 4, 8),
                         ::testing::PrintToStringParamName());

constexpr uint32_t kSeeds = 3;

TEST_P(RandomFragmentsTest, CallsMakeWhatIsExpected) {
  for (uint32_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Calls calls(*session_, fragments_);
    RandomCalls random(calls, GetParam(), seed);
    for (int i = 0; i < 12; ++i) {
      random.Do();
      const size_t x = random.Any();
      if (i % 4 == 1) {
        const Matrix another = random.Another(random.MatrixOf(x));
        if (calls.LayoutOf(random.ValueOf(x)).PartialAxes().empty() &&
            calls.LayoutOf(random.ValueOf(x)).mesh().size() == GetParam()) {
          calls.Overwrite(random.ValueOf(x), another);
          random.MatrixOf(x) = another;
        }
      } else if (i % 4 == 2) {
        const int sum = calls.AddUpKept(random.MatrixOf(x), random.ValueOf(x));
        calls.Expect(sum, Columns(random.MatrixOf(x))[0]);
      }
    }
    random.ExpectAll();
    ASSERT_FALSE(HasFailure());
  }
}

TEST_P(RandomFragmentsTest, PlansMakeWhatIsExpected) {
  for (uint32_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    InPlan in_plan(*session_, fragments_, GetParam());
    RandomCalls random(in_plan, GetParam(), seed);
    for (int i = 0; i < 12; ++i) random.Do();
    random.ExpectAll();
    in_plan.Run();
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace lockstep::testing
