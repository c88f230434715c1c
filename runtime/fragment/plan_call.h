// Calls of fragments in plans: splits and combines are layouts, and what has to move is a reshard.
//
// In a program a fragment is a function, by a name that Session::Bind() is told the fragment of.
// Its call passes numbers, reads its arguments as they lie on each rank, and writes its results,
// which are values of the program's own. What the call means for the fragment follows from the
// layouts of these values alone.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/fragment/placed_call.h"
#include "runtime/fragment/signature.h"
#include "runtime/fragment/split.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/program.h"

namespace lockstep::fragment {

// What one argument is given: {x, Split::kRows}, or 0.5.
class PlanInput {
 public:
  // NOLINTBEGIN(google-explicit-constructor): calls take their inputs as they are
  PlanInput(plan::ValueId value, Split split = Split::kNone) : value_(value), split_(split) {}
  // A number, the same each time. Integers are taken as floating-point numbers, too.
  template <typename T>
  requires(std::is_same_v<T, bool>) PlanInput(T number) : value_(plan::Literal(number)) {}
  template <typename T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool> &&
           (std::is_signed_v<T> || sizeof(T) < sizeof(int64_t))) PlanInput(T number)
      : value_(plan::Literal(static_cast<int64_t>(number))) {}
  template <typename T>
  requires(std::is_floating_point_v<T>) PlanInput(T number)
      : value_(plan::Literal(static_cast<double>(number))) {}
  // Of another kind it is refused by CallFragment().
  explicit PlanInput(plan::Literal literal) : value_(std::move(literal)) {}
  // NOLINTEND(google-explicit-constructor)

  Split split() const { return split_; }
  // Null: it is a number.
  const plan::ValueId* value() const { return std::get_if<plan::ValueId>(&value_); }
  const plan::Literal* number() const { return std::get_if<plan::Literal>(&value_); }

 private:
  std::variant<plan::ValueId, plan::Literal> value_;
  Split split_ = Split::kNone;
};

struct PlanCall {
  // What it reads: the inputs, or what they were resharded to, which the next call that wants the
  // same may be given as it is placed; kNoValue of a number.
  std::vector<plan::ValueId> arguments;
  std::vector<plan::ValueId> results;  // on the mesh plan::Mesh::Line(workers)
};

// Adds a call of the fragment on these workers, which are all of the session's if it is to do what
// Session::Execute() does; each input that lies otherwise than it is wanted is resharded first.
//
// kInvalidArgument, and nothing is added: the call does not fit the signature (PlacedCall::Make()),
// a number is none of its argument's dtype, the shape of a result is neither stated nor given, or
// each worker would keep a result of its own, which has no layout.
StatusOr<PlanCall> CallFragment(plan::ProgramBuilder& program, std::string_view name,
                                const Signature& signature, std::vector<Rank> workers,
                                absl::Span<const PlanInput> inputs,
                                const std::vector<Output>& outputs,
                                plan::SourceLine where = plan::SourceLine::Here());

// The number as a literal of an argument of that dtype: integers become floating-point numbers.
// kInvalidArgument: it is none of that dtype.
StatusOr<plan::Literal> NumberFor(DType dtype, const plan::Literal& literal);

// What a call of a program, whose function is a fragment of that signature, means for it: each
// tensor as it is placed, and the results with the combines and shapes of their layouts.
// kInvalidArgument: it is no call of such a fragment, with the number of the argument or result.
StatusOr<PlacedCall> FragmentCallOf(const plan::Program& program, const plan::CallOp& call,
                                    const Signature& signature);

// The split that gives a tensor such a layout, on a mesh of the same ranks in ascending order; or
// kAsPlaced.
Split SplitOf(const plan::Layout& layout);
// The combine whose results have such a layout. kInvalidArgument: none has.
StatusOr<Combine> CombineOf(const plan::Layout& layout);

}  // namespace lockstep::fragment
