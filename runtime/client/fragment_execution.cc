#include "runtime/client/fragment_execution.h"

#include <utility>

#include "absl/container/inlined_vector.h"
#include "runtime/client/checked_call.h"
#include "runtime/client/layout_commands.h"
#include "runtime/client/session_core.h"
#include "runtime/control/message_codec.h"
#include "runtime/fragment/load_answers.h"

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
// written since, is not moved again. A function gets a copy of its own, which it may write to.
StatusOr<DRef> Relaid(SessionCore& core, const DRef& ref, const plan::Layout& wanted,
                      Generation generation, fragment::Kind kind) {
  const bool is_kept = kind != fragment::Kind::kFunction;
  DRef copy = is_kept ? core.CopyOf(ref, wanted, generation) : DRef();
  if (!copy.IsNull()) return copy;
  const client::WriteCount writes = core.WritesTo(ref);
  LOCKSTEP_ASSIGN_OR_RETURN(copy,
                            client::IssueReshard(core, ref, wanted, client::MovedFor::kFragment));
  if (is_kept) core.KeepCopy(ref, copy, generation, writes);
  return copy;
}

// See client::NoteFunctionCall().
void NoteFunctionCall(SessionCore& core, absl::Span<const DRef* const> given) {
  core.NoteFunctionCall();
  for (const DRef* const ref : given) {
    if (ref != nullptr) core.NoteGivenToFunction(*ref);
  }
}

}  // namespace

StatusOr<CompiledFragment> CompiledFragment::Compile(const std::shared_ptr<SessionCore>& core,
                                                     const fragment::Fragment& fragment) {
  CompiledFragment compiled;
  LOCKSTEP_ASSIGN_OR_RETURN(const control::Frame body,
                            core->CompileFragment(fragment, &compiled.generation_));
  auto facts = std::make_shared<Facts>();
  facts->name = fragment.name();
  facts->kind = fragment.kind();
  facts->key = fragment.key();
  facts->calls = std::make_shared<client::CheckedCalls>();
  fragment::LoadAnswers answers(core->facts().num_workers);
  LOCKSTEP_RETURN_IF_ERROR(control::DecodeMessages<wire::FragmentLoaded>(
      body, [&](wire::FragmentLoaded::Reader answer) { return answers.Add(answer); }));
  LOCKSTEP_ASSIGN_OR_RETURN(fragment::Loaded loaded, answers.Take(facts->name));
  facts->signature = std::move(loaded.signature);
  facts->loads = std::move(loaded.loads);
  compiled.facts_ = std::move(facts);
  compiled.core_ = core;
  return compiled;
}

Status CompiledFragment::CheckSession(const std::shared_ptr<SessionCore>& core) const {
  if (facts_ == nullptr) return FailedPrecondition("no fragment was compiled to this handle");
  if (core_.owner_before(core) || core.owner_before(core_)) {
    return FailedPrecondition(facts_->name, " was compiled in another session");
  }
  return OkStatus();
}

Status CompiledFragment::CheckGeneration(SessionCore& core) const {
  if (core.generation() == generation_) return OkStatus();
  return FailedPrecondition("the session was reset since ", facts_->name,
                            " was compiled; compile it again");
}

StatusOr<std::vector<DRef>> CompiledFragment::Execute(const std::shared_ptr<SessionCore>& session,
                                                      absl::Span<const FragmentInput> inputs,
                                                      absl::Span<const FragmentOutput> outputs,
                                                      Place place) const {
  LOCKSTEP_RETURN_IF_ERROR(CheckSession(session));
  SessionCore& core = *session;
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::shared_ptr<const CheckedCall> call,
      facts_->calls->Check(core, {facts_->kind, facts_->signature}, inputs, outputs));
  absl::InlinedVector<const DRef*, 8> registers(inputs.size());  // null: a number
  std::vector<DRef> moved;                                       // which some of these are
  for (size_t i = 0; i < inputs.size(); ++i) {
    registers[i] = inputs[i].ref();
    const client::LayoutPtr& wanted = call->wanted[i];
    if (wanted == nullptr) continue;
    // Nothing is moved in vain. The call itself is checked when it is issued.
    LOCKSTEP_RETURN_IF_ERROR(CheckGeneration(core));
    moved.reserve(inputs.size());
    LOCKSTEP_ASSIGN_OR_RETURN(
        DRef there, inputs[i].ref() != nullptr
                        ? Relaid(core, *inputs[i].ref(), *wanted, generation_, facts_->kind)
                        : place(*inputs[i].tensor(), *wanted));
    moved.push_back(std::move(there));
    registers[i] = &moved.back();
  }
  const auto write = [&](wire::Command::Builder command, uint32_t number, bool is_known,
                         absl::Span<const DRef> names) {
    auto run = command.initRunFragment();
    run.setNumber(number);
    if (!is_known) {
      auto made = run.initCall();
      made.initFragment().setHigh(facts_->key.high);
      made.getFragment().setLow(facts_->key.low);
      made.setCall({reinterpret_cast<const kj::byte*>(call->encoded.data()), call->encoded.size()});
    }
    auto arguments = run.initArguments(static_cast<unsigned>(inputs.size()));
    for (unsigned i = 0; i < arguments.size(); ++i) {
      if (registers[i] == nullptr) {
        WriteNumber(arguments[i], inputs[i], call->given[i].dtype);
      } else {
        arguments[i].setRegister(registers[i]->id().Packed());
      }
    }
    auto results = run.initResults(static_cast<unsigned>(names.size()));
    for (unsigned i = 0; i < results.size(); ++i) results.set(i, names[i].id().Packed());
  };
  const bool is_function = facts_->kind == fragment::Kind::kFunction;
  if (is_function) NoteFunctionCall(core, registers);
  StatusOr<std::vector<DRef>> results =
      core.IssueFragmentCallIn(generation_, facts_->name.c_str(), call, call->results, write);
  if (is_function) NoteFunctionCall(core, registers);
  if (!results.ok()) return results;
  for (const DRef& made : *results) {
    if (is_function) core.NoteKnownToFunctions(made);
  }
  core.fragment_traffic().AddExecution();
  return results;
}

}  // namespace lockstep
