#include "runtime/fragment/plan_call.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/fragment/known_results.h"
#include "runtime/fragment/shares.h"

namespace lockstep::fragment {
namespace {

using plan::CallArgument;
using plan::Layout;

std::string ArgumentOf(size_t number, const Signature& signature) {
  return absl::StrCat("argument ", number, " of `", signature.function, "`");
}
std::string ResultOf(size_t number, const Signature& signature) {
  return absl::StrCat("result ", number, " of `", signature.function, "`");
}

StatusOr<Combine> CombineBy(Reduction op) {
  for (const Combine combine : {Combine::kAdd, Combine::kMul, Combine::kMin, Combine::kMax}) {
    if (ReductionOf(combine) == op) return combine;
  }
  return InvalidArgument("no combine of fragments is ", Name(op));
}

// Also of partial values, where the layouts' meshes have other axes.
bool IsSameResult(const Layout& a, const Layout& b) {
  if (a.PartialAxes().empty() || b.PartialAxes().empty()) return plan::LieAlike(a, b);
  return a.shape() == b.shape() && a.dtype() == b.dtype() && a.reduction() == b.reduction() &&
         a.mesh().SortedRanks() == b.mesh().SortedRanks();
}

// Also in what a call takes them for: of one worker, all layouts lie alike. A reshard between such
// layouts is nothing when it is lowered.
bool MeanTheSame(const Layout& a, const Layout& b) {
  if (IsPartial(a) != IsPartial(b) || !plan::LieAlike(a, b)) return false;
  for (int d = 0; d < a.shape().ndim(); ++d) {
    if (IsDealtOutAlong(a, d) != IsDealtOutAlong(b, d)) return false;
  }
  return true;
}

// Of a call in a program.
class CallReader {
 public:
  CallReader(const plan::Program& program, const plan::CallOp& call, const Signature& signature)
      : program_(program), call_(call), signature_(signature) {}

  StatusOr<PlacedCall> Read() const {
    const size_t wanted = signature_.arguments.size() + signature_.results.size();
    if (call_.result != plan::kNoValue) {
      return InvalidArgument("`", signature_.function, "` is a fragment, which writes its results ",
                             "into arguments and returns nothing");
    }
    if (call_.arguments.size() != wanted) {
      return InvalidArgument("`", signature_.function, "` takes ", signature_.num_arguments(),
                             " arguments, and the values that its results are written to (",
                             signature_.num_results(), "): ", wanted, " together, and ",
                             call_.arguments.size(), " are given: ", signature_.ToString());
    }
    std::vector<Input> inputs;
    std::vector<Output> outputs;
    for (size_t i = 0; i < wanted; ++i) {
      if (i < signature_.arguments.size()) {
        LOCKSTEP_ASSIGN_OR_RETURN(Input input, InputAt(i));
        inputs.push_back(std::move(input));
      } else {
        LOCKSTEP_ASSIGN_OR_RETURN(Output output, OutputAt(i - signature_.arguments.size()));
        outputs.push_back(std::move(output));
      }
    }
    LOCKSTEP_ASSIGN_OR_RETURN(PlacedCall placed,
                              PlacedCall::Make(Kind::kMlir, signature_, program_.RanksOf(call_),
                                               std::move(inputs), std::move(outputs)));
    for (int i = 0; i < signature_.num_results(); ++i) {
      LOCKSTEP_RETURN_IF_ERROR(CheckResult(placed, i));
    }
    return placed;
  }

 private:
  const CallArgument& ResultAt(size_t i) const {
    return call_.arguments[signature_.arguments.size() + i];
  }

  StatusOr<Input> InputAt(size_t i) const {
    const CallArgument& argument = call_.arguments[i];
    const std::string what = ArgumentOf(i, signature_);
    if (argument.writes())
      return InvalidArgument(what, " is written, and a fragment only reads it");
    if (argument.use == CallArgument::Use::kRead) {
      const Layout& layout = program_.value(argument.value).layout;
      return Input{layout.dtype(), layout.shape(), Split::kAsPlaced, layout};
    }
    const DType dtype = signature_.arguments[i].type.dtype;
    LOCKSTEP_RETURN_IF_ERROR(Annotate(NumberFor(dtype, argument.literal).status(), what));
    return Input{dtype, {}};
  }

  StatusOr<Output> OutputAt(size_t i) const {
    const CallArgument& argument = ResultAt(i);
    const std::string what = ResultOf(i, signature_);
    if (argument.use != CallArgument::Use::kWrite) {
      return InvalidArgument(what, " takes a value that is written: Write(y)");
    }
    const Layout& layout = program_.value(argument.value).layout;
    StatusOr<Combine> combine = CombineOf(layout);
    if (!combine.ok()) return Annotate(combine.status(), what);
    return Output{*combine, layout.shape(), layout.dtype()};
  }

  Status CheckResult(const PlacedCall& placed, int i) const {
    const Layout& layout = program_.value(ResultAt(static_cast<size_t>(i)).value).layout;
    LOCKSTEP_ASSIGN_OR_RETURN(const KnownResult known, DescribeResult(placed, i));
    const std::string what = ResultOf(static_cast<size_t>(i), signature_);
    if (!known.layout.has_value()) {
      return InvalidArgument(what, " differs from worker to worker, as its arguments do, and is ",
                             "written to ", layout, ": combine it");
    }
    if (IsSameResult(*known.layout, layout)) return OkStatus();
    return InvalidArgument(what, " becomes ", *known.layout, ", and is written to ", layout);
  }

  const plan::Program& program_;
  const plan::CallOp& call_;
  const Signature& signature_;
};

}  // namespace

StatusOr<plan::Literal> NumberFor(DType dtype, const plan::Literal& literal) {
  const auto* const truth = std::get_if<bool>(&literal);
  const auto* const integer = std::get_if<int64_t>(&literal);
  const auto* const real = std::get_if<double>(&literal);
  if (truth == nullptr && integer == nullptr && real == nullptr) {
    return InvalidArgument("it is ", dtype, ", and what is given is no number");
  }
  if (dtype == DType::kBool) {
    if (truth != nullptr) return literal;
    return InvalidArgument("it is bool, and a number is given");
  }
  if (truth != nullptr) return InvalidArgument("it is ", dtype, ", and a bool is given");
  if (IsFloat(dtype)) {
    return integer == nullptr ? literal : plan::Literal(static_cast<double>(*integer));
  }
  if (real != nullptr) {
    return InvalidArgument("it is ", dtype, ", and a floating-point number is given");
  }
  const bool fits = dtype == DType::kInt64 || (*integer >= std::numeric_limits<int32_t>::min() &&
                                               *integer <= std::numeric_limits<int32_t>::max());
  if (!fits) return InvalidArgument("it is ", dtype, ", and ", *integer, " is beyond it");
  return literal;
}

Split SplitOf(const Layout& layout) {
  const StatusOr<plan::Mesh> workers = plan::Mesh::Line(layout.mesh().SortedRanks());
  if (!workers.ok()) return Split::kAsPlaced;
  for (const Split split : {Split::kNone, Split::kRows, Split::kColumns}) {
    const std::optional<int> dimension = DimensionOf(split);
    if (dimension.has_value() && *dimension >= layout.shape().ndim()) continue;
    const StatusOr<Layout> made =
        Layout::Make(layout.shape(), layout.dtype(), *workers, {*PlacementFor(split)});
    if (made.ok() && MeanTheSame(*made, layout)) return split;
  }
  return Split::kAsPlaced;
}

StatusOr<Combine> CombineOf(const Layout& layout) {
  const auto refuse = [&](const char* why) {
    return InvalidArgument("it is written to ", layout, ", and no combine of fragments makes that",
                           why);
  };
  // Also of one rank, which makes partial values, too.
  std::optional<Reduction> partial;
  bool all_are_partial = true;
  for (size_t axis = 0; axis < layout.placements().size(); ++axis) {
    const plan::Placement& placement = layout.placements()[axis];
    if (placement.is_partial()) partial = placement.op;
    const bool is_any = layout.mesh().axes()[axis].size == 1;
    all_are_partial = all_are_partial && (placement.is_partial() || is_any);
  }
  if (partial.has_value()) {
    if (!all_are_partial) return refuse(": all axes have to be partial");
    return CombineBy(*partial);
  }
  std::optional<int> dealt_out;
  for (const plan::Placement& placement : layout.placements()) {
    if (!placement.is_shard()) continue;
    if (dealt_out.has_value() && *dealt_out != placement.dim) return refuse("");
    dealt_out = placement.dim;
  }
  for (const Combine combine : {Combine::kRows, Combine::kColumns}) {
    if (dealt_out.has_value() && DimensionOf(combine) == dealt_out) return combine;
  }
  if (dealt_out.has_value()) return refuse("");
  return Combine::kNone;
}

StatusOr<PlacedCall> FragmentCallOf(const plan::Program& program, const plan::CallOp& call,
                                    const Signature& signature) {
  return CallReader(program, call, signature).Read();
}

StatusOr<PlanCall> CallFragment(plan::ProgramBuilder& program, std::string_view name,
                                const Signature& signature, std::vector<Rank> workers,
                                absl::Span<const PlanInput> inputs,
                                const std::vector<Output>& outputs, plan::SourceLine where) {
  std::sort(workers.begin(), workers.end());
  std::vector<Input> given;
  std::vector<CallArgument> arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].value() != nullptr) {
      const Layout layout = program.LayoutOf(*inputs[i].value());
      given.push_back({layout.dtype(), layout.shape(), inputs[i].split(), layout});
      arguments.push_back(plan::Read(*inputs[i].value()));
      continue;
    }
    // One that is too many is told of by PlacedCall.
    const bool is_too_many = i >= signature.arguments.size();
    const DType dtype = is_too_many ? DType::kFloat64 : signature.arguments[i].type.dtype;
    StatusOr<plan::Literal> number = NumberFor(dtype, *inputs[i].number());
    if (!number.ok()) return Annotate(number.status(), ArgumentOf(i, signature));
    given.push_back({dtype, {}});
    arguments.push_back(plan::Pass(*std::move(number)));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      const PlacedCall placed,
      PlacedCall::Make(Kind::kMlir, signature, std::move(workers), std::move(given), outputs));
  std::vector<Layout> results;
  for (int i = 0; i < signature.num_results(); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(KnownResult known, DescribeResult(placed, i));
    if (!known.layout.has_value()) {
      return InvalidArgument(ResultOf(static_cast<size_t>(i), signature), " cannot be combined by ",
                             "none in a plan, where each value has a layout: the arguments are ",
                             "split, so each worker would keep its own");
    }
    results.push_back(*std::move(known.layout));
  }
  PlanCall made;
  for (size_t i = 0; i < inputs.size(); ++i) {
    made.arguments.push_back(plan::kNoValue);
    if (inputs[i].value() == nullptr) continue;
    plan::ValueId& value = made.arguments.back();
    value = *inputs[i].value();
    const Layout& wanted = *placed.ArgumentLayout(static_cast<int>(i));
    if (!MeanTheSame(program.LayoutOf(value), wanted))
      value = program.Reshard(value, wanted, where);
    arguments[i] = plan::Read(value);
  }
  for (const Layout& layout : results) {
    made.results.push_back(program.Make(layout));
    arguments.push_back(plan::Write(made.results.back()));
  }
  program.Call(name, std::move(arguments), where);
  return made;
}

}  // namespace lockstep::fragment
