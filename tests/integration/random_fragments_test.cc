// Random calls of fragments, one after the other and in plans, compared with what the same numbers
// make in this process: however inputs lie, are split, and results are combined.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "runtime/client/session.h"
#include "runtime/fragment/plan_call.h"
#include "runtime/plan/program.h"
#include "tests/integration/compiled_fragments_fixture.h"
#include "tests/integration/matrix_fragments.h"
#include "tests/integration/random_fragments.h"

namespace lockstep::testing {
namespace {

using fragment::Combine;
using fragment::Fragment;
using fragment::Split;

using Fragments = std::map<std::string, CompiledFragment>;

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

class RandomFragmentsTest : public CompiledFragmentsFixture {
 protected:
  void SetUp() override {
    CompiledFragmentsFixture::SetUp();
    for (const auto& [name, text] : MatrixFragments()) {
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
