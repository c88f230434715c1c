#include "runtime/client/fragment_execution.h"

#include <limits>
#include <numeric>
#include <utility>

#include "runtime/client/layout_commands.h"
#include "runtime/client/session_commands.h"
#include "runtime/client/session_core.h"
#include "runtime/control/message_codec.h"
#include "runtime/fragment/call_codec.h"
#include "runtime/fragment/known_results.h"
#include "runtime/fragment/signature_codec.h"

namespace lockstep {
namespace {

using client::SessionCore;

std::string ArgumentText(size_t number) { return "argument " + std::to_string(number); }

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

void WriteNumber(wire::Value::Builder out, const FragmentInput& input, DType dtype) {
  if (input.truth() != nullptr) return out.setBool(*input.truth());
  if (input.real() != nullptr) return out.setFloat64(*input.real());
  if (IsFloat(dtype)) return out.setFloat64(static_cast<double>(*input.integer()));
  out.setInt64(*input.integer());
}

StatusOr<fragment::Input> DescribeRegister(SessionCore& core, const FragmentInput& input,
                                           const fragment::TensorType& type) {
  LOCKSTEP_RETURN_IF_ERROR(core.CheckOwn(*input.ref(), "its register"));
  StatusOr<plan::Layout> layout = client::KnownLayout(core, *input.ref());
  if (layout.ok()) {
    return fragment::Input{layout->dtype(), layout->shape(), input.split(), *std::move(layout)};
  }
  if (input.split() != fragment::Split::kAsPlaced) return layout.status();
  if (input.own_shape().has_value()) {
    return fragment::Input{type.dtype, *input.own_shape(), input.split()};
  }
  if (type.IsClosed()) return fragment::Input{type.dtype, Shape(type.extents), input.split()};
  return InvalidArgument("it is ", type.ToString(), ", and nothing says what the workers have: ",
                         "give own_shape, or say the layout by DeclareLayout()");
}

StatusOr<fragment::Input> Describe(SessionCore& core, const FragmentInput& input,
                                   const fragment::TensorType& type) {
  if (input.ref() != nullptr) return DescribeRegister(core, input, type);
  if (input.tensor() == nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNumber(input, type.dtype));
    return fragment::Input{type.dtype, Shape{}, fragment::Split::kNone};
  }
  if (input.split() == fragment::Split::kAsPlaced) {
    return InvalidArgument("a tensor of the client's is placed nowhere yet: split it");
  }
  return fragment::Input{input.tensor()->dtype, input.tensor()->shape, input.split()};
}

// The tensor as the call wants it, on all workers. What lies so is used as it is; what had to be
// moved before, and was not written since, is not moved again.
StatusOr<DRef> Bring(SessionCore& core, const DRef& ref, const plan::Layout& from,
                     const plan::Layout& wanted) {
  if (from == wanted) return ref;
  DRef copy = core.CopyOf(ref, wanted);
  if (!copy.IsNull()) return copy;
  LOCKSTEP_ASSIGN_OR_RETURN(copy, client::IssueReshard(core, ref, wanted));
  core.KeepCopy(ref, copy);
  return copy;
}

}  // namespace

StatusOr<CompiledFragment> CompiledFragment::Compile(const std::shared_ptr<SessionCore>& core,
                                                     const fragment::Fragment& fragment) {
  if (fragment.kind() == fragment::Kind::kFunction) {
    return Unimplemented("`", fragment.name(),
                         "` is the name of a function, which is not compiled: call it by Call()");
  }
  CompiledFragment compiled;
  LOCKSTEP_ASSIGN_OR_RETURN(const control::Frame body,
                            core->CompileFragment(fragment, &compiled.generation_));
  auto facts = std::make_shared<Facts>();
  facts->name = fragment.name();
  facts->kind = fragment.kind();
  facts->key = fragment::KeyOf(fragment);
  LOCKSTEP_RETURN_IF_ERROR(control::DecodeMessage<wire::FragmentSignature>(
      body, [&](wire::FragmentSignature::Reader reader) -> Status {
        LOCKSTEP_ASSIGN_OR_RETURN(facts->signature, fragment::ReadSignature(reader));
        return OkStatus();
      }));
  compiled.facts_ = std::move(facts);
  compiled.core_ = core;
  return compiled;
}

Status CompiledFragment::CheckUsable(SessionCore& core) const {
  if (facts_ == nullptr) return FailedPrecondition("no fragment was compiled to this handle");
  if (core_.lock().get() != &core) {
    return FailedPrecondition(facts_->name, " was compiled in another session");
  }
  if (core.generation() == generation_) return OkStatus();
  return FailedPrecondition("the session was reset since ", facts_->name,
                            " was compiled; compile it again");
}

StatusOr<std::vector<DRef>> CompiledFragment::Execute(SessionCore& core,
                                                      const std::vector<FragmentInput>& inputs,
                                                      const std::vector<FragmentOutput>& outputs,
                                                      Place place) const {
  LOCKSTEP_RETURN_IF_ERROR(CheckUsable(core));
  const fragment::Signature& signature = facts_->signature;
  // All that can be checked, before anything is sent.
  fragment::CallParts call{{}, outputs};
  for (size_t i = 0; i < inputs.size(); ++i) {
    // One that is too many is told of by PlacedCall.
    const fragment::TensorType any;
    const bool is_known = i < signature.arguments.size();
    auto input = Describe(core, inputs[i], is_known ? signature.arguments[i].type : any);
    if (!input.ok()) {
      return Annotate(input.status(), ArgumentText(i) + " of `" + signature.function + "`");
    }
    call.inputs.push_back(*std::move(input));
  }
  std::vector<Rank> ranks(static_cast<size_t>(core.facts().num_workers));
  std::iota(ranks.begin(), ranks.end(), 0);
  LOCKSTEP_ASSIGN_OR_RETURN(const fragment::PlacedCall placed,
                            fragment::PlacedCall::Make(facts_->kind, signature, std::move(ranks),
                                                       call.inputs, call.outputs));
  std::vector<std::shared_ptr<const plan::Layout>> layouts;
  for (int i = 0; i < signature.num_results(); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(fragment::KnownResult known, fragment::DescribeResult(placed, i));
    layouts.push_back(known.layout.has_value()
                          ? std::make_shared<const plan::Layout>(*std::move(known.layout))
                          : nullptr);
  }

  std::vector<DRef> registers(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::optional<plan::Layout>& wanted = placed.ArgumentLayout(static_cast<int>(i));
    if (inputs[i].tensor() != nullptr) {
      LOCKSTEP_ASSIGN_OR_RETURN(registers[i], place(*inputs[i].tensor(), *wanted));
    } else if (inputs[i].ref() != nullptr) {
      registers[i] = *inputs[i].ref();
      if (!wanted.has_value()) continue;
      LOCKSTEP_ASSIGN_OR_RETURN(registers[i],
                                Bring(core, registers[i], *call.inputs[i].layout, *wanted));
    }
  }

  const std::string encoded = fragment::EncodeCall(call);
  const auto write = [&](wire::Command::Builder command, absl::Span<const DRef> made) {
    auto run = command.initRunFragment();
    run.initFragment().setHigh(facts_->key.high);
    run.getFragment().setLow(facts_->key.low);
    run.setCall({reinterpret_cast<const kj::byte*>(encoded.data()), encoded.size()});
    auto arguments = run.initArguments(static_cast<unsigned>(inputs.size()));
    for (unsigned i = 0; i < arguments.size(); ++i) {
      if (registers[i].IsNull()) {
        WriteNumber(arguments[i], inputs[i], signature.arguments[i].type.dtype);
      } else {
        arguments[i].setRegister(registers[i].id().Packed());
      }
    }
    auto results = run.initResults(static_cast<unsigned>(made.size()));
    for (unsigned i = 0; i < results.size(); ++i) results.set(i, made[i].id().Packed());
  };
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::vector<DRef> made,
      core.IssueNamingIn(generation_, facts_->name.c_str(), layouts.size(), write));
  for (size_t i = 0; i < made.size(); ++i) {
    if (layouts[i] != nullptr) core.SetLayout(made[i], layouts[i]);
  }
  return made;
}

}  // namespace lockstep
