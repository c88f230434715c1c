// Calls of fragments of matrices, drawn at random; the same ones for a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/fragment/placed_call.h"
#include "runtime/plan/layout.h"
#include "tests/integration/matrix_fragments.h"
#include "tests/support/random_layouts.h"

namespace lockstep::testing {

// Where values are, and what calls fragments: a session, or a plan that is made. Values are
// numbered as they come.
class Backend {
 public:
  struct Input {
    int value = 0;
    fragment::Split split = fragment::Split::kNone;
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

// Makes calls at random, and knows what comes of them.
class RandomCalls {
 public:
  RandomCalls(Backend& backend, int workers, uint32_t seed);

  // The next one.
  void Do();
  // One that is known, at random.
  size_t Any() { return static_cast<size_t>(any_.Below(static_cast<int>(known_.size()))); }
  int ValueOf(size_t i) const { return known_[i].first; }
  Matrix& MatrixOf(size_t i) { return known_[i].second; }
  Matrix Another(const Matrix& like);
  void ExpectAll();

 private:
  using Input = Backend::Input;
  struct Way {
    fragment::Split split;
    fragment::Combine combine;
  };

  void Keep(int value, Matrix matrix) { known_.emplace_back(value, std::move(matrix)); }
  // One of as many rows and columns as another has.
  size_t Like(const Matrix& matrix);
  int64_t Number() { return any_.Below(7) - 3; }
  Way AnyWay();

  void Place();
  void BlendTwo();
  void TurnOne();
  void Multiply();
  void TakeColumns();
  void TellPlaces();
  // Where it lies on all workers in a way that has a combine. Parts of a sum are blended each.
  void TakeAsPlaced();

  Backend& backend_;
  const int workers_;
  support::RandomLayouts any_;
  int64_t extents_[2] = {};
  std::vector<std::pair<int, Matrix>> known_;
};

}  // namespace lockstep::testing
