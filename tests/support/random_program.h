// Programs drawn at random, the same ones for a seed, beside the tensors that they mean.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/plan/program.h"
#include "tests/support/random_layouts.h"

namespace lockstep::support {

// Arithmetic of int32 that wraps, as that of tensors does.
int32_t Plus(int32_t a, int32_t b);
int32_t Times(int32_t a, int32_t b);

// Which functions a program calls. Each does the same to partial sums as to the sum.
enum class RandomCalls {
  kArithmetic,  // add_twice(a, b, c): c = a + 2 b; scale(a): a = kScale a; negate(a), which returns
  kCopies,      // those of the built-in lockstep.copy, which all workers have
};
inline constexpr int32_t kScale = 3;
inline constexpr int32_t kNegate = -1;

// Of int32 tensors; inputs and outputs lie on rank 0.
class RandomProgram {
 public:
  struct Tensor {
    Shape shape;
    std::vector<int32_t> elements;
  };

  // Of the ranks below `world`.
  RandomProgram(uint32_t seed, int world, RandomCalls calls);

  // Right, if the generator is.
  StatusOr<plan::Program> Build() { return builder_.Build(); }

  // By name; inputs are as they are before it runs, outputs as they have to be then.
  const std::map<std::string, Tensor>& inputs() const { return inputs_; }
  const std::map<std::string, Tensor>& outputs() const { return outputs_; }

  int collectives() const { return collectives_; }
  int calls_in_chunks() const { return calls_in_chunks_; }

 private:
  using Layout = plan::Layout;
  using ValueId = plan::ValueId;

  int Below(int end) { return any_.Below(end); }
  Layout AnyLayout(const Shape& shape);
  static Layout AtRank0(const Shape& shape);

  void Hold(ValueId id, std::vector<int32_t> whole, const Layout& layout);
  const Layout& LayoutOf(ValueId id) const { return layouts_.at(id); }
  ValueId Any() { return known_[static_cast<size_t>(Below(static_cast<int>(known_.size())))]; }
  ValueId AnyLike(ValueId id);  // of the same layout
  std::vector<int32_t> Scaled(ValueId id, int32_t by) const;

  void AddOp();
  void AddCallWithResultIn(ValueId a);
  void AddCallInPlace(ValueId a);
  void AddCallThatReturns(ValueId a);
  void AddView(ValueId a);
  void AddCollective(ValueId a);
  void AddCallInChunks(const std::string& name);
  void AddSimilarReshards(const std::string& name);
  void AddOutput(const std::string& name);
  std::vector<int32_t> Retaken(ValueId a, const Layout& to) const;

  RandomLayouts any_;
  const int world_;
  const RandomCalls calls_;
  plan::ProgramBuilder builder_;
  std::map<std::string, Tensor> inputs_;
  std::map<std::string, Tensor> outputs_;
  std::map<ValueId, std::vector<int32_t>> values_;  // whole
  std::map<ValueId, Layout> layouts_;
  std::vector<ValueId> known_;
  int collectives_ = 0;
  int calls_in_chunks_ = 0;
};

}  // namespace lockstep::support
