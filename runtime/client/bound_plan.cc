#include "runtime/client/bound_plan.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "runtime/client/session_commands.h"
#include "runtime/client/session_core.h"
#include "runtime/client/unpaired_messages.h"
#include "runtime/fragment/plan_call.h"
#include "runtime/plan/plan_key.h"

namespace lockstep {
namespace {

using client::OperationUse;
using client::SessionCore;

StatusOr<DRef> InputOf(const SessionCore& core, const plan::ProgramValue& input,
                       const PlanRegisters& registers) {
  const auto found = registers.inputs.find(input.name);
  if (found == registers.inputs.end()) {
    return InvalidArgument("the program's input \"", input.name, "\" is not given");
  }
  const DRef& ref = found->second;
  LOCKSTEP_RETURN_IF_ERROR(core.CheckOwn(ref, "input \"" + input.name + "\""));
  const std::shared_ptr<const plan::Layout> layout = core.LayoutOf(ref);
  if (layout == nullptr || *layout == input.layout) return ref;
  return InvalidArgument("input \"", input.name, "\" is ", input.layout,
                         " in the program, and its register holds ", *layout);
}

StatusOr<DRef> FunctionOf(SessionCore& core, const std::string& name,
                          const PlanRegisters& registers) {
  const auto found = registers.functions.find(name);
  if (found == registers.functions.end()) {
    return client::IssueGetFunction(core, DRef(), name);
  }
  LOCKSTEP_RETURN_IF_ERROR(core.CheckOwn(found->second, "function \"" + name + "\""));
  return found->second;
}

// A name that the program does not have is a mistake.
Status CheckNames(const plan::Program& program, const PlanRegisters& registers) {
  for (const auto& input : registers.inputs) {
    const std::string& name = input.first;
    const bool is_known =
        std::any_of(program.inputs().begin(), program.inputs().end(),
                    [&](plan::ValueId id) { return program.value(id).name == name; });
    if (!is_known) return InvalidArgument("the program has no input \"", name, "\"");
  }
  const std::vector<std::string>& known = program.functions();
  const auto calls = [&](const std::string& name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  for (const auto& [name, ref] : registers.functions) {
    if (!calls(name)) return InvalidArgument("the program calls no function \"", name, "\"");
  }
  for (const auto& [name, fragment] : registers.fragments) {
    if (!calls(name)) return InvalidArgument("the program calls no fragment \"", name, "\"");
    if (registers.functions.contains(name)) {
      return InvalidArgument("\"", name, "\" is given as a function and as a fragment");
    }
  }
  return OkStatus();
}

void WriteProgram(wire::Binding::Builder binding, const plan::EncodedProgram& program,
                  bool is_known) {
  if (is_known) {
    binding.initKnown().setHigh(program.key.high);
    binding.getKnown().setLow(program.key.low);
  } else {
    const absl::Span<const std::byte> bytes = program.bytes();
    binding.setProgram({reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()});
  }
}

void WriteIds(capnp::List<uint64_t>::Builder list, absl::Span<const DRef> refs) {
  for (unsigned i = 0; i < list.size(); ++i) list.set(i, refs[i].id().Packed());
}

void WriteFragments(wire::Binding::Builder binding,
                    const std::map<uint32_t, fragment::ObjectKey>& fragments) {
  auto list = binding.initFragments(static_cast<unsigned>(fragments.size()));
  unsigned next = 0;
  for (const auto& [function, key] : fragments) {
    auto one = list[next++];
    one.setFunction(function);
    one.setHigh(key.high);
    one.setLow(key.low);
  }
}

}  // namespace

Status BoundPlan::CheckFragments(const std::shared_ptr<SessionCore>& core,
                                 const plan::Program& program, const PlanRegisters& registers) {
  for (const auto& [name, fragment] : registers.fragments) {
    Status usable = fragment.CheckSession(core);
    if (usable.ok()) usable = fragment.CheckGeneration(*core);
    if (usable.ok() && fragment.facts_->kind == fragment::Kind::kFunction) {
      usable = InvalidArgument("it is a function of a module: give its register as a function");
    }
    if (!usable.ok()) return Annotate(usable, "fragment \"" + name + "\"");
  }
  for (const plan::ProgramOp& op : program.ops()) {
    const auto* const call = std::get_if<plan::CallOp>(&op.what);
    if (call == nullptr) continue;
    const auto found =
        registers.fragments.find(program.functions()[static_cast<size_t>(call->function)]);
    if (found == registers.fragments.end()) continue;
    const Status fits =
        fragment::FragmentCallOf(program, *call, found->second.signature()).status();
    if (!fits.ok()) return Annotate(fits, op.where + ": " + found->first);
  }
  return OkStatus();
}

std::map<uint32_t, fragment::ObjectKey> BoundPlan::KeysOf(const plan::Program& program,
                                                          const PlanRegisters& registers) {
  std::map<uint32_t, fragment::ObjectKey> keys;
  for (uint32_t i = 0; i < program.functions().size(); ++i) {
    const auto found = registers.fragments.find(program.functions()[i]);
    if (found != registers.fragments.end()) keys[i] = found->second.facts_->key;
  }
  return keys;
}

StatusOr<BoundPlan> BoundPlan::Bind(const std::shared_ptr<SessionCore>& core,
                                    const plan::Program& program, const PlanRegisters& registers) {
  LOCKSTEP_RETURN_IF_ERROR(CheckNames(program, registers));
  BoundPlan plan;
  plan.ranks_ = program.Ranks();
  for (const Rank rank : plan.ranks_) {
    LOCKSTEP_RETURN_IF_ERROR(Annotate(core->CheckRank(rank), "a mesh of the program"));
  }
  for (const plan::ProgramOp& op : program.ops()) {
    if (!std::holds_alternative<plan::ChunkOp>(op.what)) continue;
    return InvalidArgument("the program has been lowered: bind the one that it was made of");
  }
  std::vector<DRef>& inputs = plan.inputs_;
  for (const plan::ValueId id : program.inputs()) {
    LOCKSTEP_ASSIGN_OR_RETURN(DRef input, InputOf(*core, program.value(id), registers));
    inputs.push_back(std::move(input));
  }
  // Before any command of it: a reset that comes meanwhile makes the plan one of the past.
  plan.generation_ = core->generation();
  LOCKSTEP_RETURN_IF_ERROR(CheckFragments(core, program, registers));
  std::vector<DRef> functions;
  for (const std::string& name : program.functions()) {
    if (registers.fragments.contains(name)) {
      functions.emplace_back();
      continue;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(DRef function, FunctionOf(*core, name, registers));
    functions.push_back(std::move(function));
  }
  const std::map<uint32_t, fragment::ObjectKey> fragments = KeysOf(program, registers);
  const OperationUse use{OperationKind::kAllToAll, false, plan.ranks_};
  const plan::EncodedProgram encoded = plan::Encode(program);
  const auto write = [&](wire::Command::Builder command, absl::Span<const DRef> made,
                         bool is_known) {
    auto bind = command.initBind();
    bind.setPlan(made.front().id().Packed());
    auto binding = bind.initBinding();
    WriteProgram(binding, encoded, is_known);
    WriteIds(binding.initFunctions(static_cast<unsigned>(functions.size())), functions);
    WriteFragments(binding, fragments);
    WriteIds(binding.initInputs(static_cast<unsigned>(inputs.size())), inputs);
    WriteIds(binding.initOutputs(static_cast<unsigned>(made.size() - 1)), made.subspan(1));
  };
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::vector<DRef> made,
      core->IssueBindIn(plan.generation_, use, encoded, program.outputs().size() + 1, write));
  plan.plan_ = std::move(made.front());
  for (size_t i = 0; i < program.outputs().size(); ++i) {
    const plan::ProgramValue& output = program.value(program.outputs()[i]);
    core->SetLayout(made[i + 1], std::make_shared<const plan::Layout>(output.layout));
    plan.outputs_.emplace(output.name, std::move(made[i + 1]));
  }
  plan.core_ = core;
  return plan;
}

Status BoundPlan::Execute(const ExecuteOptions& options) {
  const std::shared_ptr<SessionCore> core = core_.lock();
  if (core == nullptr) {
    return FailedPrecondition(plan_.IsNull() ? "no program is bound to this plan"
                                             : "the plan's session is closed");
  }
  NoteWrites(*core);
  const OperationUse use{OperationKind::kAllToAll, false, ranks_};
  const Status issued =
      core->IssueOperationIn(generation_, use, [&](wire::Command::Builder command) {
        auto execute = command.initExecute();
        execute.setBound(plan_.id().Packed());
        execute.setStepByStep(options.step_by_step);
      });
  NoteWrites(*core);
  return issued;
}

void BoundPlan::NoteWrites(SessionCore& core) const {
  // Its functions may write to what they are given, and to what they know from before.
  core.NoteFunctionCall();
  for (const auto& [name, output] : outputs_) core.NoteGivenToFunction(output);
  for (const DRef& input : inputs_) core.NoteGivenToFunction(input);
}

StatusOr<DRef> BoundPlan::Output(std::string_view name) const {
  const auto found = outputs_.find(name);
  if (found != outputs_.end()) return found->second;
  std::string known;
  for (const auto& [other, ref] : outputs_) known += (known.empty() ? "" : ", ") + other;
  return NotFound("the plan has no output \"", name, "\"; it has ", known.empty() ? "none" : known);
}

}  // namespace lockstep
