#include "runtime/client/fragment_execution.h"

#include <utility>

#include "runtime/client/checked_call.h"
#include "runtime/client/layout_commands.h"
#include "runtime/client/session_core.h"
#include "runtime/control/message_codec.h"
#include "runtime/fragment/signature_codec.h"

namespace lockstep {
namespace {

using client::CheckedCall;
using client::SessionCore;

void WriteNumber(wire::Value::Builder out, const FragmentInput& input, DType dtype) {
  if (input.truth() != nullptr) return out.setBool(*input.truth());
  if (input.real() != nullptr) return out.setFloat64(*input.real());
  if (IsFloat(dtype)) return out.setFloat64(static_cast<double>(*input.integer()));
  out.setInt64(*input.integer());
}

// The register's tensor in another layout. What was moved before in this generation, and not
// written since, is not moved again.
StatusOr<DRef> Relaid(SessionCore& core, const DRef& ref, const plan::Layout& wanted,
                      Generation generation) {
  DRef copy = core.CopyOf(ref, wanted, generation);
  if (!copy.IsNull()) return copy;
  LOCKSTEP_ASSIGN_OR_RETURN(copy, client::IssueReshard(core, ref, wanted));
  core.KeepCopy(ref, copy, generation);
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
  facts->calls = std::make_shared<client::CheckedCalls>();
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
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::shared_ptr<const CheckedCall> call,
      facts_->calls->Check(core, facts_->kind, facts_->signature, inputs, outputs));
  std::vector<DRef> registers(inputs.size());  // null: a number
  for (size_t i = 0; i < inputs.size(); ++i) {
    const client::LayoutPtr& wanted = call->wanted[i];
    if (inputs[i].tensor() != nullptr) {
      LOCKSTEP_ASSIGN_OR_RETURN(registers[i], place(*inputs[i].tensor(), *wanted));
    } else if (inputs[i].ref() != nullptr && wanted != nullptr) {
      LOCKSTEP_ASSIGN_OR_RETURN(registers[i], Relaid(core, *inputs[i].ref(), *wanted, generation_));
    } else if (inputs[i].ref() != nullptr) {
      registers[i] = *inputs[i].ref();
    }
  }
  const auto write = [&](wire::Command::Builder command, absl::Span<const DRef> names) {
    auto run = command.initRunFragment();
    run.initFragment().setHigh(facts_->key.high);
    run.getFragment().setLow(facts_->key.low);
    run.setCall({reinterpret_cast<const kj::byte*>(call->encoded.data()), call->encoded.size()});
    auto arguments = run.initArguments(static_cast<unsigned>(inputs.size()));
    for (unsigned i = 0; i < arguments.size(); ++i) {
      if (registers[i].IsNull()) {
        WriteNumber(arguments[i], inputs[i], facts_->signature.arguments[i].type.dtype);
      } else {
        arguments[i].setRegister(registers[i].id().Packed());
      }
    }
    auto results = run.initResults(static_cast<unsigned>(names.size()));
    for (unsigned i = 0; i < results.size(); ++i) results.set(i, names[i].id().Packed());
  };
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::vector<DRef> made,
      core.IssueNamingIn(generation_, facts_->name.c_str(), call->results.size(), write));
  for (size_t i = 0; i < made.size(); ++i) {
    if (call->results[i].layout != nullptr) core.SetLayout(made[i], call->results[i].layout);
    if (call->results[i].is_told_by_workers) core.ExpectLayout(made[i]);
  }
  return made;
}

}  // namespace lockstep
