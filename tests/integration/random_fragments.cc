#include "tests/integration/random_fragments.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/integration/compiled_fragments_fixture.h"

namespace lockstep::testing {

using fragment::Combine;
using fragment::Split;

RandomCalls::RandomCalls(Backend& backend, int workers, uint32_t seed)
    : backend_(backend), workers_(workers), any_(seed) {
  for (int i = 0; i < 2; ++i) extents_[i] = any_.Below(3) == 0 ? any_.Below(3) : any_.Below(12);
  for (int i = 0; i < 3; ++i) Place();
}

void RandomCalls::Do() {
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

Matrix RandomCalls::Another(const Matrix& like) {
  Matrix matrix = like;
  for (uint64_t& element : matrix.elements) element = static_cast<uint64_t>(any_.Below(1000));
  return matrix;
}

void RandomCalls::ExpectAll() {
  for (const auto& [value, matrix] : known_) {
    SCOPED_TRACE("value " + std::to_string(value));
    backend_.Expect(value, matrix);
  }
}

size_t RandomCalls::Like(const Matrix& matrix) {
  std::vector<size_t> alike;
  for (size_t i = 0; i < known_.size(); ++i) {
    if (known_[i].second.shape() == matrix.shape()) alike.push_back(i);
  }
  return alike[static_cast<size_t>(any_.Below(static_cast<int>(alike.size())))];
}

RandomCalls::Way RandomCalls::AnyWay() {
  constexpr Way kWays[] = {{Split::kRows, Combine::kRows},
                           {Split::kColumns, Combine::kColumns},
                           {Split::kNone, Combine::kNone}};
  return kWays[any_.Below(3)];
}

void RandomCalls::Place() {
  const Matrix matrix = Another(Matrix::Of(extents_[any_.Below(2)], extents_[any_.Below(2)]));
  constexpr Reduction kOps[] = {Reduction::kSum, Reduction::kMin, Reduction::kMax};
  const plan::Layout any =
      any_.AnyLayout(matrix.shape(), any_.AnyMesh(workers_), kOps[any_.Below(3)]);
  const plan::Layout layout =
      Unwrap(plan::Layout::Make(any.shape(), DType::kInt64, any.mesh(), any.placements()));
  Keep(backend_.Place(matrix, layout), matrix);
}

void RandomCalls::BlendTwo() {
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

void RandomCalls::TurnOne() {
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

void RandomCalls::Multiply() {
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

void RandomCalls::TakeColumns() {
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

void RandomCalls::TellPlaces() {
  const size_t x = Any();
  const Way way = AnyWay();
  Matrix result = Places(MatrixOf(x));
  const int value =
      backend_.Call("places", {{ValueOf(x), way.split}}, {{way.combine, result.shape()}})[0];
  Keep(value, std::move(result));
}

void RandomCalls::TakeAsPlaced() {
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
  const int value =
      backend_.Call("blend", {as_placed, as_placed, {0, {}, by}}, {{*combine, result.shape()}})[0];
  Keep(value, std::move(result));
}

}  // namespace lockstep::testing
