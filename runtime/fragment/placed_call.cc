#include "runtime/fragment/placed_call.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/rank_text.h"
#include "runtime/fragment/shares.h"
#include "runtime/plan/placement.h"

namespace lockstep::fragment {
namespace {

std::string Of(const char* what, int number, const Signature& signature) {
  return absl::StrCat(what, " ", number, " of `", signature.function, "`");
}

Status CheckCount(const char* what, const Signature& signature, int wanted, size_t given) {
  if (static_cast<size_t>(wanted) == given) return OkStatus();
  return InvalidArgument("`", signature.function, "` has ", wanted, " ", what,
                         wanted == 1 ? "" : "s", ", and ", given, " ", given == 1 ? "is" : "are",
                         " given: ", signature.ToString());
}

const char* DimensionsText(int ndim) { return ndim == 1 ? " dimension" : " dimensions"; }

std::vector<int64_t> ExtentsOf(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

// Of what others have of their own, on a worker that has none.
Shape WithoutElements(Shape shape) {
  if (shape.ndim() == 0) return {0};
  shape[0] = 0;
  return shape;
}

// A register of which only the function knows what is in it: it may be nothing.
bool TellsNothing(const Input& input) { return input.as_it_is && input.holders.empty(); }

}  // namespace

StatusOr<Signature> SignatureOfFunction(const std::string& function,
                                        const std::vector<Input>& inputs,
                                        const std::vector<Output>& outputs) {
  Signature signature{function, {}, {}};
  for (const Input& input : inputs) {
    const auto ndim = static_cast<size_t>(input.shape.ndim());
    signature.arguments.push_back({{input.dtype, std::vector<int64_t>(ndim, kOpen)}});
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Output& output = outputs[i];
    if (!output.shape.has_value() || !output.dtype.has_value()) {
      return InvalidArgument("result ", i, " of `", function, "`: a function does not state what ",
                             "it returns; say shape and dtype with the call");
    }
    TensorType type{*output.dtype, ExtentsOf(*output.shape)};
    const auto dimension = DimensionOf(output.combine);
    if (dimension.has_value() && *dimension < type.ndim()) {
      type.extents[static_cast<size_t>(*dimension)] = kOpen;
    }
    signature.results.push_back({std::move(type)});
  }
  LOCKSTEP_RETURN_IF_ERROR(signature.Validate());
  return signature;
}

PlacedCall::PlacedCall(Kind kind, Signature signature, plan::Mesh workers,
                       std::vector<Input> inputs, std::vector<Output> outputs)
    : kind_(kind),
      signature_(std::move(signature)),
      workers_(std::move(workers)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      layouts_(inputs_.size()),
      calls_(static_cast<size_t>(workers_.size()), true) {}

StatusOr<PlacedCall> PlacedCall::Make(Kind kind, Signature signature, std::vector<Rank> ranks,
                                      std::vector<Input> inputs, std::vector<Output> outputs) {
  LOCKSTEP_RETURN_IF_ERROR(
      CheckCount("argument", signature, signature.num_arguments(), inputs.size()));
  LOCKSTEP_RETURN_IF_ERROR(
      CheckCount("result", signature, signature.num_results(), outputs.size()));
  LOCKSTEP_ASSIGN_OR_RETURN(plan::Mesh workers, plan::Mesh::Line(std::move(ranks)));
  PlacedCall call(kind, std::move(signature), std::move(workers), std::move(inputs),
                  std::move(outputs));
  for (int i = 0; i < call.signature_.num_arguments(); ++i) {
    LOCKSTEP_RETURN_IF_ERROR(call.PlaceArgument(i));
  }
  call.ChooseCallers();
  for (int i = 0; i < call.signature_.num_arguments(); ++i) {
    LOCKSTEP_RETURN_IF_ERROR(call.CheckPartsOf(i));
  }
  for (int i = 0; i < call.signature_.num_results(); ++i) {
    LOCKSTEP_RETURN_IF_ERROR(call.CheckResult(i));
  }
  return call;
}

Status PlacedCall::PlaceArgument(int argument) {
  const auto i = static_cast<size_t>(argument);
  const Input& input = inputs_[i];
  const TensorType& type = signature_.arguments[i].type;
  const std::string what = Of("argument", argument, signature_);
  LOCKSTEP_RETURN_IF_ERROR(Annotate(CheckHolders(input), what));
  if (input.dtype != type.dtype) {
    return InvalidArgument(what, " is ", type.ToString(), ", and ", input.dtype, " is given");
  }
  if (input.shape.ndim() != type.ndim()) {
    return InvalidArgument(what, " is ", type.ToString(), ", and a tensor of shape ", input.shape,
                           " is given, which has ", input.shape.ndim(),
                           DimensionsText(input.shape.ndim()));
  }
  if (const auto dimension = DimensionOf(input.split);
      dimension.has_value() && input.shape.ndim() <= *dimension) {
    return InvalidArgument(what, " cannot be split by ", Name(input.split), ": its shape ",
                           input.shape, " has ", input.shape.ndim(),
                           DimensionsText(input.shape.ndim()));
  }
  if (const auto placement = PlacementFor(input.split)) {
    auto wanted = plan::Layout::Make(input.shape, input.dtype, workers_, {*placement});
    if (!wanted.ok()) return Annotate(wanted.status(), what);
    if (input.layout.has_value()) {
      LOCKSTEP_RETURN_IF_ERROR(Annotate(plan::CheckReshard(*input.layout, *wanted), what));
    }
    layouts_[i] = *std::move(wanted);
  } else if (input.layout.has_value()) {
    if (input.layout->shape() != input.shape || input.layout->dtype() != input.dtype) {
      return InvalidArgument(what, " is ", input.dtype, input.shape, ", and its layout is that of ",
                             input.layout->dtype(), input.layout->shape());
    }
    for (const Rank rank : workers_.ranks()) {
      if (input.layout->mesh().IndexOf(rank).has_value()) continue;
      return InvalidArgument(what, " cannot be taken as it is placed: it lies on ",
                             ListRanks(input.layout->mesh().SortedRanks()),
                             ", and the fragment also runs on rank ", rank);
    }
    layouts_[i] = input.layout;
  } else {
    LOCKSTEP_RETURN_IF_ERROR(Annotate(input.shape.Validate(SizeOf(input.dtype)), what));
  }
  return OkStatus();
}

Status PlacedCall::CheckHolders(const Input& input) const {
  if (input.holders.empty()) return OkStatus();
  if (input.split != Split::kAsPlaced || input.layout.has_value()) {
    return InvalidArgument("who has it follows from its layout, and is said beside it");
  }
  const auto disorder = std::adjacent_find(input.holders.begin(), input.holders.end(),
                                           [](Rank a, Rank b) { return a >= b; });
  if (disorder != input.holders.end()) {
    return InvalidArgument("the ranks that have it are not in ascending order");
  }
  for (const Rank rank : input.holders) {
    if (!workers_.IndexOf(rank).has_value()) {
      return InvalidArgument("rank ", rank, " is said to have it, and the fragment does not run ",
                             "there");
    }
  }
  return OkStatus();
}

void PlacedCall::ChooseCallers() {
  bool any_is_dealt_out = false;
  std::vector<bool> has_part(calls_.size(), false);
  for (int a = 0; a < signature_.num_arguments(); ++a) {
    const auto i = static_cast<size_t>(a);
    const bool is_dealt_out = layouts_[i].has_value() && IsDealtOut(*layouts_[i]);
    any_is_dealt_out = any_is_dealt_out || is_dealt_out || !inputs_[i].holders.empty();
    // A value of each worker's own counts as a part: without a call it would be in no result.
    if (!DiffersByWorker(*this, a) || TellsNothing(inputs_[i])) continue;
    for (int index = 0; index < workers_.size(); ++index) {
      const bool has = is_dealt_out ? !LacksPart(a, index) : Holds(a, index);
      if (has) has_part[static_cast<size_t>(index)] = true;
    }
  }
  if (!any_is_dealt_out) return;
  calls_ = std::move(has_part);
  // Of nothing at all, too, a result comes about: one worker makes it.
  nobody_has_a_part_ = std::find(calls_.begin(), calls_.end(), true) == calls_.end();
  if (nobody_has_a_part_) calls_[0] = true;
}

bool PlacedCall::LacksPart(int argument, int index) const {
  const plan::Layout& layout = *layouts_[static_cast<size_t>(argument)];
  const plan::Box part = PartAt(argument, index);
  for (int d = 0; d < part.ndim(); ++d) {
    if (part.extents[d] == 0 && IsDealtOutAlong(layout, d)) return true;
  }
  return false;
}

Status PlacedCall::CheckPartsOf(int argument) const {
  const TensorType& type = signature_.arguments[static_cast<size_t>(argument)].type;
  for (int index = 0; index < workers_.size(); ++index) {
    if (!Calls(index)) continue;
    const plan::Box part = PartAt(argument, index);
    if (type.Admits(part.extents)) continue;
    const std::string what = Of("argument", argument, signature_);
    const Shape& whole = inputs_[static_cast<size_t>(argument)].shape;
    if (part.extents == whole) {
      return InvalidArgument(what, " is ", type.ToString(), ", and a tensor of shape ", whole,
                             " is given");
    }
    return InvalidArgument(what, " is ", type.ToString(), ", and of a tensor of shape ", whole,
                           " rank ", workers_.RankAt(index), " would get ", part.extents);
  }
  return OkStatus();
}

Status PlacedCall::CheckResult(int result) const {
  const auto i = static_cast<size_t>(result);
  const TensorType& type = signature_.results[i].type;
  const Combine combine = outputs_[i].combine;
  const std::string what = Of("result", result, signature_);
  const auto refuse = [&](const auto&... why) {
    return InvalidArgument(what, ", which is ", type.ToString(), ", cannot be combined by ",
                           Name(combine), ": ", why...);
  };
  if (const auto dimension = DimensionOf(combine);
      dimension.has_value() && type.ndim() <= *dimension) {
    return refuse("it has ", type.ndim(), DimensionsText(type.ndim()));
  }
  if (ReductionOf(combine).has_value()) {
    if (!IsArithmetic(type.dtype)) return refuse("there is no arithmetic of ", type.dtype);
    if (type.dtype == DType::kBool && (combine == Combine::kAdd || combine == Combine::kMul)) {
      return refuse("of truths, max says whether any is true, and min whether all are");
    }
  }
  if (combine != Combine::kNone && kind_ != Kind::kFunction) {
    bool differs = false;
    for (int a = 0; a < signature_.num_arguments(); ++a)
      differs = differs || DiffersByWorker(*this, a);
    if (!differs) {
      return refuse("no argument is split, so all workers have the same one; split one, or combine",
                    " by none");
    }
  }
  const bool counts_all =
      DimensionOf(combine).has_value() || combine == Combine::kAdd || combine == Combine::kMul;
  // A module's function may do something else on each worker.
  if (counts_all && kind_ != Kind::kFunction) {
    if (const auto twins = WorkersGivenTheSame(*this); twins.has_value()) {
      return refuse("ranks ", workers_.RankAt(twins->first), " and ",
                    workers_.RankAt(twins->second), " are given the same, and their results would ",
                    "count twice; split the arguments over all workers");
    }
  }
  if (DimensionOf(combine).has_value()) {
    if (const auto argument = ArgumentOutOfOrder(*this); argument.has_value()) {
      return refuse("the parts of argument ", *argument, " lie in another order than the ranks ",
                    "that have them; split it, or reshard it");
    }
  }
  if (outputs_[i].dtype.has_value() && *outputs_[i].dtype != type.dtype) {
    return InvalidArgument(what, " is ", type.ToString(), ", and ", *outputs_[i].dtype,
                           " is expected of it");
  }
  if (outputs_[i].shape.has_value()) return CheckGivenShape(result);
  if (!type.IsClosed() && !signature_.results[i].sizes_known) {
    return InvalidArgument(what, " is ", type.ToString(), ", and only the call itself knows how ",
                           "large it becomes: give its shape");
  }
  return OkStatus();
}

Status PlacedCall::CheckGivenShape(int result) const {
  const auto i = static_cast<size_t>(result);
  const TensorType& type = signature_.results[i].type;
  const Shape& given = *outputs_[i].shape;
  LOCKSTEP_RETURN_IF_ERROR(
      Annotate(given.Validate(SizeOf(type.dtype)), Of("result", result, signature_)));
  const auto refuse = [&](const auto&... more) {
    return InvalidArgument(Of("result", result, signature_), " is ", type.ToString(),
                           ", and the shape ", given, " is expected of it", more...);
  };
  if (given.ndim() != type.ndim()) return refuse();
  if (const auto dimension = DimensionOf(outputs_[i].combine);
      dimension.has_value() && given[*dimension] > 0 && nobody_has_a_part_) {
    return refuse(", but no worker has a part of what is split");
  }
  for (int index = 0; index < workers_.size(); ++index) {
    if (!Calls(index)) continue;
    const Shape part = *KnownShape(result, index);
    if (part == given && !type.Admits(part)) return refuse();
    if (!type.Admits(part)) return refuse(": ", part, " on rank ", workers_.RankAt(index));
  }
  return OkStatus();
}

plan::Box PlacedCall::PartAt(int argument, int index) const {
  const auto i = static_cast<size_t>(argument);
  if (!layouts_[i].has_value()) {
    return plan::WholeBox(Holds(argument, index) ? inputs_[i].shape
                                                 : WithoutElements(inputs_[i].shape));
  }
  // Members of a layout as it is placed may be numbered in another way.
  return layouts_[i]->TileAt(*layouts_[i]->mesh().IndexOf(workers_.RankAt(index)));
}

bool PlacedCall::Holds(int argument, int index) const {
  const std::vector<Rank>& holders = inputs_[static_cast<size_t>(argument)].holders;
  return holders.empty() ||
         std::binary_search(holders.begin(), holders.end(), workers_.RankAt(index));
}

std::optional<Shape> PlacedCall::KnownShape(int result, int index) const {
  const auto i = static_cast<size_t>(result);
  const TensorType& type = signature_.results[i].type;
  if (!outputs_[i].shape.has_value()) {
    if (!type.IsClosed()) return std::nullopt;
    return Shape(type.extents);
  }
  Shape shape = *outputs_[i].shape;
  if (const auto dimension = DimensionOf(outputs_[i].combine)) {
    shape[*dimension] = DealOut(shape[*dimension])[static_cast<size_t>(index)];
  }
  return shape;
}

StatusOr<std::optional<plan::Layout>> PlacedCall::ResultLayout(
    int result, absl::Span<const Shape> shapes) const {
  const auto i = static_cast<size_t>(result);
  LOCKSTEP_RETURN_IF_ERROR(CheckShapes(result, shapes));
  const Combine combine = outputs_[i].combine;
  const DType dtype = signature_.results[i].type.dtype;
  const Shape& shape = shapes[static_cast<size_t>(FirstCaller())];
  if (const auto dimension = DimensionOf(combine)) return PutTogether(result, *dimension, shapes);
  if (const auto op = ReductionOf(combine)) {
    return plan::Layout::Make(shape, dtype, workers_, {plan::Placement::Partial(*op)});
  }
  if (IsKept(result)) return std::nullopt;
  return plan::Layout::Make(shape, dtype, workers_, {plan::Placement::Replicate()});
}

Status PlacedCall::CheckShapes(int result, absl::Span<const Shape> shapes) const {
  const auto i = static_cast<size_t>(result);
  const TensorType& type = signature_.results[i].type;
  const std::string what = Of("result", result, signature_);
  const std::optional<int> dimension = DimensionOf(outputs_[i].combine);
  const int first = FirstCaller();
  for (int index = first; index < workers_.size(); ++index) {
    if (index != first && !Calls(index)) continue;
    const Shape& shape = shapes[static_cast<size_t>(index)];
    if (!type.Admits(shape)) {
      return InvalidArgument(what, " is ", type.ToString(), ", and is ", shape, " on rank ",
                             workers_.RankAt(index));
    }
    const std::optional<Shape> known = KnownShape(result, index);
    if (known.has_value() && Calls(index) && *known != shape) {
      return InvalidArgument(what, " was to be ", *known, " on rank ", workers_.RankAt(index),
                             ", and is ", shape);
    }
    Shape alike = shapes[static_cast<size_t>(first)];
    if (dimension.has_value()) alike[*dimension] = shape[*dimension];
    if (!IsKept(result) && shape != alike) {
      return InvalidArgument(what, " cannot be combined by ", Name(outputs_[i].combine), ": it is ",
                             shapes[static_cast<size_t>(first)], " on rank ",
                             workers_.RankAt(first), " and ", shape, " on rank ",
                             workers_.RankAt(index));
    }
  }
  return OkStatus();
}

StatusOr<plan::Layout> PlacedCall::PutTogether(int result, int dimension,
                                               absl::Span<const Shape> shapes) const {
  std::vector<int64_t> extents;
  Shape whole = shapes[static_cast<size_t>(FirstCaller())];
  int64_t sum = 0;
  for (int index = 0; index < workers_.size(); ++index) {
    extents.push_back(Calls(index) ? shapes[static_cast<size_t>(index)][dimension] : 0);
    if (__builtin_add_overflow(sum, extents.back(), &sum)) {
      return InvalidArgument(Of("result", result, signature_), " is too large");
    }
  }
  whole[dimension] = sum;
  bool is_even = true;
  for (int index = 0; index < workers_.size(); ++index) {
    is_even = is_even &&
              EvenPart(sum, workers_.size(), index).count == extents[static_cast<size_t>(index)];
  }
  return plan::Layout::Make(whole, signature_.results[static_cast<size_t>(result)].type.dtype,
                            workers_,
                            {is_even ? plan::Placement::Shard(dimension)
                                     : plan::Placement::Shard(dimension, std::move(extents))});
}

std::vector<int64_t> PlacedCall::DealOut(int64_t count) const {
  for (int a = 0; a < signature_.num_arguments(); ++a) {
    const auto& layout = layouts_[static_cast<size_t>(a)];
    if (!layout.has_value()) continue;
    for (int d = 0; d < layout->shape().ndim(); ++d) {
      if (layout->shape()[d] != count || !IsDealtOutAlong(*layout, d)) continue;
      std::vector<int64_t> extents;
      int64_t sum = 0;
      for (int index = 0; index < workers_.size(); ++index) {
        extents.push_back(PartAt(a, index).extents[d]);
        sum += extents.back();
      }
      // On a mesh of several axes, workers may hold the same part.
      if (sum == count) return extents;
    }
  }
  const auto callers = static_cast<int>(std::count(calls_.begin(), calls_.end(), true));
  std::vector<int64_t> extents;
  int caller = 0;
  for (int index = 0; index < workers_.size(); ++index) {
    extents.push_back(Calls(index) ? EvenPart(count, callers, caller++).count : 0);
  }
  return extents;
}

bool PlacedCall::IsKept(int result) const {
  if (outputs_[static_cast<size_t>(result)].combine != Combine::kNone) return false;
  // A module's function may do something else on each worker.
  if (kind_ == Kind::kFunction) return true;
  for (int a = 0; a < signature_.num_arguments(); ++a) {
    if (DiffersByWorker(*this, a)) return true;
  }
  return false;
}

int PlacedCall::FirstCaller() const {
  return static_cast<int>(std::find(calls_.begin(), calls_.end(), true) - calls_.begin());
}

}  // namespace lockstep::fragment
