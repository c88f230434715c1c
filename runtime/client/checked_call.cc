#include "runtime/client/checked_call.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "runtime/client/layout_commands.h"
#include "runtime/fragment/call_codec.h"
#include "runtime/fragment/known_results.h"

namespace lockstep::client {
namespace {

using Given = CheckedCall::Given;

// Whether a number that is given is one of an argument of that dtype.
Status CheckNumber(const FragmentInput& input, DType dtype) {
  if (input.truth() != nullptr) {
    if (dtype == DType::kBool) return OkStatus();
    return InvalidArgument("it is ", dtype, ", and a bool is given");
  }
  if (IsFloat(dtype)) return OkStatus();
  if (input.real() != nullptr) {
    return InvalidArgument("it is ", dtype, ", and a floating-point number is given");
  }
  if (dtype == DType::kInt64) return OkStatus();
  if (dtype != DType::kInt32) return InvalidArgument("it is ", dtype, ", and an integer is given");
  const int64_t integer = *input.integer();
  if (integer >= std::numeric_limits<int32_t>::min() &&
      integer <= std::numeric_limits<int32_t>::max()) {
    return OkStatus();
  }
  return InvalidArgument("it is ", dtype, ", and ", integer, " is beyond it");
}

// What a number is to a module's function.
DType OwnDType(const FragmentInput& number) {
  if (number.truth() != nullptr) return DType::kBool;
  return number.real() != nullptr ? DType::kFloat64 : DType::kInt64;
}

StatusOr<Given> RegisterGiven(SessionCore& core, const FragmentInput& input,
                              const fragment::TensorType* type) {
  const DRef& ref = *input.ref();
  LOCKSTEP_RETURN_IF_ERROR(core.CheckOwn(ref, "its register"));
  Given given{Given::Kind::kRegister, input.split(), core.LayoutOf(ref)};
  Status unknown;
  if (given.layout == nullptr) {
    // It may be another client's, or a fragment's: then the workers tell, and it is known here.
    unknown = KnownLayout(core, ref).status();
    given.layout = core.LayoutOf(ref);
  }
  if (given.layout != nullptr) return given;
  if (input.split() != fragment::Split::kAsPlaced) return unknown;
  given.holders = core.HoldersOf(ref);
  if (type == nullptr) return given;
  given.dtype = type->dtype;
  if (input.own_shape().has_value()) {
    given.shape = *input.own_shape();
  } else if (type->IsClosed()) {
    given.shape = Shape(type->extents);
  } else {
    return InvalidArgument("it is ", type->ToString(), ", and nothing says what the workers have: ",
                           "give own_shape, or say the layout by DeclareLayout()");
  }
  return given;
}

// `type`: as the fragment states it; null: it is a function, which does not.
StatusOr<Given> HowGiven(SessionCore& core, const FragmentInput& input,
                         const fragment::TensorType* type) {
  if (input.ref() != nullptr) return RegisterGiven(core, input, type);
  if (input.tensor() == nullptr) {
    Given given;
    given.dtype = type != nullptr ? type->dtype : OwnDType(input);
    LOCKSTEP_RETURN_IF_ERROR(CheckNumber(input, given.dtype));
    return given;
  }
  if (input.split() == fragment::Split::kAsPlaced) {
    return InvalidArgument("a tensor of the client's is placed nowhere yet: split it");
  }
  return Given{Given::Kind::kTensor, input.split(), nullptr, input.tensor()->dtype,
               input.tensor()->shape};
}

template <typename T>
bool AreSame(const std::shared_ptr<const T>& a, const std::shared_ptr<const T>& b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

// Whether an input that was found to be given so is another time. It may be, and not be known here
// to be, if the workers have to be asked.
bool IsGivenAs(SessionCore& core, const FragmentInput& input, const Given& given,
               const fragment::TensorType* type) {
  if (input.ref() != nullptr) {
    const DRef& ref = *input.ref();
    if (given.kind != Given::Kind::kRegister || given.split != input.split()) return false;
    if (!core.CheckOwn(ref, "").ok()) return false;
    if (given.layout != nullptr && core.HasLayout(ref, given.layout.get())) return true;
    const LayoutPtr layout = core.LayoutOf(ref);
    if (layout != nullptr || given.layout != nullptr) return AreSame(layout, given.layout);
    if (core.MayHaveForeignLayout(ref)) return false;
    if (!AreSame(core.HoldersOf(ref), given.holders)) return false;
    if (type == nullptr) return true;
    return given.shape ==
           (input.own_shape().has_value() ? *input.own_shape() : Shape(type->extents));
  }
  if (input.tensor() != nullptr) {
    return given.kind == Given::Kind::kTensor && given.split == input.split() &&
           given.dtype == input.tensor()->dtype && given.shape == input.tensor()->shape;
  }
  if (given.kind != Given::Kind::kNumber) return false;
  return type != nullptr ? CheckNumber(input, type->dtype).ok() : given.dtype == OwnDType(input);
}

fragment::Input InputOf(const Given& given, fragment::Kind kind) {
  if (given.layout == nullptr) {
    return {given.dtype,          given.shape,
            given.split,          {},
            given.IsAsItIs(kind), given.holders != nullptr ? *given.holders : std::vector<Rank>()};
  }
  return {given.layout->dtype(), given.layout->shape(), given.split, *given.layout};
}

// Null: all call it.
HoldersPtr CallersOf(const fragment::PlacedCall& call) {
  std::vector<Rank> callers;
  for (int index = 0; index < call.workers().size(); ++index) {
    if (call.Calls(index)) callers.push_back(call.workers().RankAt(index));
  }
  if (callers.size() == static_cast<size_t>(call.workers().size())) return nullptr;
  return std::make_shared<const std::vector<Rank>>(std::move(callers));
}

StatusOr<CheckedCall> CheckAnew(int num_workers, fragment::Kind kind, fragment::Signature signature,
                                std::vector<Given> given,
                                absl::Span<const FragmentOutput> outputs) {
  std::vector<Rank> ranks(static_cast<size_t>(num_workers));
  std::iota(ranks.begin(), ranks.end(), 0);
  fragment::CallParts parts{{}, {outputs.begin(), outputs.end()}};
  for (const Given& one : given) {
    parts.inputs.push_back(InputOf(one, kind));
  }
  if (kind == fragment::Kind::kFunction) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        signature, fragment::SignatureOfFunction(signature.function, parts.inputs, parts.outputs));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      const fragment::PlacedCall placed,
      fragment::PlacedCall::Make(kind, signature, ranks, parts.inputs, parts.outputs));
  CheckedCall call;
  for (size_t i = 0; i < given.size(); ++i) {
    const std::optional<plan::Layout>& wanted = placed.ArgumentLayout(static_cast<int>(i));
    // It may lie as it is wanted, on a mesh of another name, or of one worker.
    const bool stays = !wanted.has_value() || given[i].kind == Given::Kind::kNumber ||
                       (given[i].layout != nullptr && plan::LieAlike(*given[i].layout, *wanted));
    call.wanted.push_back(stays ? nullptr : std::make_shared<const plan::Layout>(*wanted));
  }
  for (int i = 0; i < signature.num_results(); ++i) {
    NewRegister& result = call.results.emplace_back();
    if (placed.IsKept(i)) {
      result.holders = CallersOf(placed);
      continue;
    }
    // What the call does not tell is found by the workers, who have the compiled fragment.
    result.is_told_by_workers = !placed.KnownShape(i, 0).has_value();
    if (result.is_told_by_workers) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(fragment::KnownResult known, fragment::DescribeResult(placed, i));
    result.layout = std::make_shared<const plan::Layout>(*std::move(known.layout));
  }
  call.encoded = fragment::EncodeCall(parts);
  if (call.encoded.size() > fragment::kMaxCallBytes) {
    return InvalidArgument("a call of `", signature.function, "` takes ", call.encoded.size(),
                           " bytes, and may take ", fragment::kMaxCallBytes,
                           ": its layouts name too many ranks");
  }
  call.given = std::move(given);
  call.outputs = parts.outputs;
  return call;
}

}  // namespace

bool CheckedCall::IsOf(SessionCore& core, const Callee& callee,
                       absl::Span<const FragmentInput> inputs,
                       absl::Span<const FragmentOutput> other_outputs) const {
  if (inputs.size() != given.size()) return false;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!IsGivenAs(core, inputs[i], given[i], callee.ArgumentType(i))) return false;
  }
  return absl::MakeConstSpan(outputs) == other_outputs;
}

std::shared_ptr<const CheckedCall> CheckedCalls::Find(
    SessionCore& core, const Callee& callee, absl::Span<const FragmentInput> inputs,
    absl::Span<const FragmentOutput> outputs) const {
  std::lock_guard lock(mutex_);
  for (auto call = kept_.rbegin(); call != kept_.rend(); ++call) {
    if ((*call)->IsOf(core, callee, inputs, outputs)) return *call;
  }
  return nullptr;
}

StatusOr<std::shared_ptr<const CheckedCall>> CheckedCalls::Check(
    SessionCore& core, const Callee& callee, absl::Span<const FragmentInput> inputs,
    absl::Span<const FragmentOutput> outputs) {
  std::shared_ptr<const CheckedCall> call = Find(core, callee, inputs, outputs);
  if (call != nullptr) [[likely]]
    return call;
  std::vector<Given> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    // One that is too many is told of by PlacedCall.
    static const fragment::TensorType any;
    const bool is_too_many = !callee.is_function() && i >= callee.signature.arguments.size();
    StatusOr<Given> one = HowGiven(core, inputs[i], is_too_many ? &any : callee.ArgumentType(i));
    if (!one.ok()) {
      return Annotate(one.status(),
                      "argument " + std::to_string(i) + " of `" + callee.signature.function + "`");
    }
    given.push_back(*std::move(one));
  }
  // Again: the workers may have been asked for a layout.
  call = Find(core, callee, inputs, outputs);
  if (call != nullptr) return call;
  LOCKSTEP_ASSIGN_OR_RETURN(CheckedCall made,
                            CheckAnew(core.facts().num_workers, callee.kind, callee.signature,
                                      std::move(given), outputs));
  call = std::make_shared<const CheckedCall>(std::move(made));
  std::lock_guard lock(mutex_);
  if (kept_.size() >= kMost) kept_.erase(kept_.begin());
  kept_.push_back(call);
  return call;
}

}  // namespace lockstep::client
