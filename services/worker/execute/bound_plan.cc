#include "services/worker/execute/bound_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/trace/event.h"
#include "services/worker/execute/step_runner.h"
#include "services/worker/values/reachable.h"

namespace lockstep::worker {
namespace {

using plan::StepBuffer;
using tensor::Tensor;

const char* NameOf(const plan::ProgramStep& step) {
  if (std::holds_alternative<plan::CallStep>(step.what)) return "call";
  if (std::holds_alternative<plan::CopyStep>(step.what)) return "copy";
  if (std::holds_alternative<plan::FillStep>(step.what)) return "fill";
  return FactsOf(std::get<plan::CollectiveStep>(step.what).kind).name.data();
}

registers::Value ToValue(const plan::Literal& literal) {
  return std::visit([](const auto& value) { return registers::Value(value); }, literal);
}

Status CheckCount(const char* what, size_t given, size_t wanted) {
  if (given == wanted) return OkStatus();
  return InvalidArgument("the program has ", wanted, " ", what, ", and ", given,
                         " registers are given for them");
}

}  // namespace

StatusOr<std::shared_ptr<BoundPlan>> BoundPlan::Bind(
    const CollectiveContext& context, std::shared_ptr<const PreparedProgram> prepared,
    wire::Binding::Reader binding) {
  if (context.places.gpu != nullptr) {
    return Unimplemented("plans are executed by workers without a GPU only, so far");
  }
  const std::shared_ptr<BoundPlan> plan(new BoundPlan(std::move(prepared)));
  const plan::Program& program = *plan->prepared_->lowered.program;
  LOCKSTEP_RETURN_IF_ERROR(
      CheckCount("functions", binding.getFunctions().size(), program.functions().size()));
  LOCKSTEP_RETURN_IF_ERROR(
      CheckCount("inputs", binding.getInputs().size(), program.inputs().size()));
  LOCKSTEP_RETURN_IF_ERROR(
      CheckCount("outputs", binding.getOutputs().size(), program.outputs().size()));
  LOCKSTEP_RETURN_IF_ERROR(
      plan->tensors_.TakeArena(context.places.host->allocator(), context.session.registers()));
  LOCKSTEP_RETURN_IF_ERROR(plan->BindRegisters(context, binding));
  LOCKSTEP_RETURN_IF_ERROR(plan->BindCalls(context, binding));
  LOCKSTEP_RETURN_IF_ERROR(plan->Connect(context));
  return plan;
}

size_t BoundPlan::HeldBytes() const {
  size_t bytes = tensors_.arena_bytes();
  for (const plan::ProgramOp& op : prepared_->lowered.program->ops()) {
    bytes += op.where.size();
    const auto* call = std::get_if<plan::CallOp>(&op.what);
    if (call == nullptr) continue;
    for (const plan::CallArgument& argument : call->arguments) {
      const auto* text = std::get_if<std::string>(&argument.literal);
      if (text != nullptr) bytes += text->size();
    }
  }
  return bytes;
}

std::string BoundPlan::Describe() const {
  return "plan of " + std::to_string(prepared_->steps.steps.size()) + " steps";
}

StatusOr<Tensor> BoundPlan::ReadInput(const CollectiveContext& context,
                                      const BoundRegister& input) const {
  const std::string role = "input \"" + input.name + "\"";
  StatusOr<const registers::Value*> value = context.session.registers().Read(input.id);
  if (!value.ok()) return Annotate(value.status(), role);
  const auto* tensor = (*value)->As<Tensor>();
  if (tensor == nullptr) {
    return InvalidArgument(role, " (register ", input.id, ") holds ", registers::Describe(**value),
                           ", not a tensor");
  }
  LOCKSTEP_RETURN_IF_ERROR(RequireReachable(context.places, *tensor, role));
  const StepBuffer& buffer = prepared_->steps.buffers[input.buffer];
  if (tensor->dtype() != buffer.dtype || tensor->shape() != buffer.extents) {
    return InvalidArgument("by its layout, this rank's tile of ", role, " is ", buffer.dtype,
                           buffer.extents, ", and register ", input.id, " holds ", tensor->dtype(),
                           tensor->shape());
  }
  return *tensor;
}

Status BoundPlan::BindRegisters(const CollectiveContext& context, wire::Binding::Reader binding) {
  const plan::Program& program = *prepared_->lowered.program;
  // Each is read once: a message may be read only so much.
  const auto input_ids = binding.getInputs();
  const auto output_ids = binding.getOutputs();
  std::set<uint64_t> taken(input_ids.begin(), input_ids.end());
  for (const uint64_t id : output_ids) {
    if (taken.insert(id).second) continue;
    return InvalidArgument("register ", RegisterId::FromPacked(id),
                           " is to receive an output, and is an input or another output, too");
  }
  for (unsigned i = 0; i < program.inputs().size(); ++i) {
    const plan::ValueId id = program.inputs()[i];
    const auto buffer = static_cast<size_t>(id);
    if (prepared_->steps.buffers[buffer].home != StepBuffer::Home::kInput) continue;
    inputs_.push_back({RegisterId::FromPacked(input_ids[i]), buffer, program.value(id).name});
    LOCKSTEP_ASSIGN_OR_RETURN(Tensor tensor, ReadInput(context, inputs_.back()));
    tensors_.Place(buffer, std::move(tensor));
  }
  for (unsigned i = 0; i < program.outputs().size(); ++i) {
    const plan::ValueId id = program.outputs()[i];
    const auto buffer = static_cast<size_t>(prepared_->lowered.lies_in[static_cast<size_t>(id)]);
    const BoundRegister output{RegisterId::FromPacked(output_ids[i]), buffer,
                               program.value(id).name};
    const StepBuffer::Home home = prepared_->steps.buffers[buffer].home;
    if (home == StepBuffer::Home::kNowhere) continue;
    outputs_.push_back(output);
    if (home != StepBuffer::Home::kArena) continue;
    LOCKSTEP_RETURN_IF_ERROR(context.session.Write(output.id, tensors_[buffer]));
  }
  return CheckInputsApart();
}

Status BoundPlan::CheckInputsApart() const {
  const std::vector<bool> is_written = prepared_->lowered.program->WrittenValues();
  std::map<const tensor::Storage*, const BoundRegister*> by_memory;
  for (const BoundRegister& input : inputs_) {
    const auto [at, is_first] = by_memory.emplace(tensors_[input.buffer].storage().get(), &input);
    const BoundRegister& other = *at->second;
    if (is_first || (!is_written[input.buffer] && !is_written[other.buffer])) continue;
    return InvalidArgument("inputs \"", other.name, "\" and \"", input.name,
                           "\" share memory (registers ", other.id, " and ", input.id,
                           "), and the program writes to one of them; give it a copy "
                           "(lockstep.copy)");
  }
  return OkStatus();
}

bool BoundPlan::IsInPlace(const CollectiveContext& context, const BoundRegister& bound) const {
  const StatusOr<const registers::Value*> value = context.session.registers().Read(bound.id);
  const auto* tensor = value.ok() ? (*value)->As<Tensor>() : nullptr;
  return tensor != nullptr && tensor->dl() == tensors_[bound.buffer].dl();
}

Status BoundPlan::WriteOutputs(const CollectiveContext& context) {
  for (const BoundRegister& output : outputs_) {
    if (IsInPlace(context, output)) continue;
    LOCKSTEP_RETURN_IF_ERROR(context.session.Write(output.id, tensors_[output.buffer]));
  }
  return OkStatus();
}

Status BoundPlan::BindCalls(const CollectiveContext& context, wire::Binding::Reader binding) {
  const plan::Program& program = *prepared_->lowered.program;
  const auto function_ids = binding.getFunctions();
  for (const plan::ProgramStep& step : prepared_->steps.steps) {
    const auto* call = std::get_if<plan::CallStep>(&step.what);
    if (call == nullptr) continue;
    const auto& op = std::get<plan::CallOp>(program.ops()[call->op].what);
    const RegisterId id = RegisterId::FromPacked(function_ids[static_cast<unsigned>(op.function)]);
    const std::string& name = program.functions()[static_cast<size_t>(op.function)];
    StatusOr<const registers::Value*> value = context.session.registers().Read(id);
    if (!value.ok()) return Annotate(value.status(), "function \"" + name + "\"");
    const auto* object = (*value)->As<std::shared_ptr<registers::Object>>();
    if (object == nullptr || (*object)->kind() != Kind::kFunction) {
      return InvalidArgument("function \"", name, "\": register ", id, " holds ",
                             registers::Describe(**value), ", which cannot be called");
    }
    BoundCall bound{std::static_pointer_cast<module::Function>(*object), {}};
    for (size_t i = 0; i < op.arguments.size(); ++i) {
      const int buffer = call->argument_buffers[i];
      bound.arguments.push_back(buffer < 0
                                    ? ToValue(op.arguments[i].literal)
                                    : registers::Value(tensors_[static_cast<size_t>(buffer)]));
    }
    calls_.push_back(std::move(bound));
  }
  return OkStatus();
}

// All ranks go through all teams in one order, as CommunicatorCache wants it, and each team once.
Status BoundPlan::Connect(const CollectiveContext& context) {
  size_t own = context.session.CountKept();
  for (const std::vector<plan::Team>& teams : prepared_->steps.teams) {
    for (const plan::Team& team : teams) {
      if (kept_->all.contains(team)) continue;
      if (auto known = context.session.FindKept(team)) {
        kept_->all.emplace(team, *std::move(known));
        continue;
      }
      const bool is_in = std::find(team.begin(), team.end(), context.rank) != team.end();
      if (is_in && ++own > kMaxTeams) {
        return ResourceExhausted("the session's plans connect this rank with others in more than ",
                                 kMaxTeams,
                                 " different teams; free plans that are done, or "
                                 "reshard between fewer different meshes");
      }
      LOCKSTEP_ASSIGN_OR_RETURN(
          const Communicators* const connected,
          context.session.CommunicatorsOf({TeamName::Kind::kTeam, team},
                                          is_in ? team : std::vector<Rank>(), context.world,
                                          Deadline::After(context.timeout)));
      kept_->all.emplace(team, is_in ? connected->cpus : nullptr);
    }
  }
  for (const plan::ProgramStep& step : prepared_->steps.steps) {
    const auto* collective = std::get_if<plan::CollectiveStep>(&step.what);
    if (collective != nullptr) communicators_.push_back(kept_->all.at(collective->team).get());
  }
  context.session.Keep(kept_);
  return OkStatus();
}

Status BoundPlan::FollowInputs(const CollectiveContext& context) {
  bool has_moved = false;
  for (const BoundRegister& input : inputs_) {
    if (IsInPlace(context, input)) [[likely]]
      continue;
    LOCKSTEP_ASSIGN_OR_RETURN(Tensor other, ReadInput(context, input));
    tensors_.Place(input.buffer, std::move(other));
    has_moved = true;
  }
  if (!has_moved) [[likely]]
    return OkStatus();
  LOCKSTEP_RETURN_IF_ERROR(CheckInputsApart());
  size_t next_call = 0;
  for (const plan::ProgramStep& step : prepared_->steps.steps) {
    const auto* call = std::get_if<plan::CallStep>(&step.what);
    if (call == nullptr) continue;
    BoundCall& bound = calls_[next_call++];
    for (size_t i = 0; i < call->argument_buffers.size(); ++i) {
      const int buffer = call->argument_buffers[i];
      if (buffer < 0) continue;
      const auto number = static_cast<size_t>(buffer);
      if (prepared_->steps.buffers[number].home != StepBuffer::Home::kInput) continue;
      bound.arguments[i] = registers::Value(tensors_[number]);
    }
  }
  return OkStatus();
}

Status BoundPlan::RunCall(const CollectiveContext& context, const plan::CallStep& step,
                          BoundCall& bound, CallFunction call) {
  if (context.session.Skips(context.command)) return Aborted("the session's work is given up");
  const auto for_each_returned = [&](auto&& visit) {
    for (size_t i = 0; i < step.argument_buffers.size(); ++i) {
      const int buffer = step.argument_buffers[i];
      if (buffer < 0) continue;
      const auto number = static_cast<size_t>(buffer);
      if (prepared_->steps.buffers[number].home == StepBuffer::Home::kReturned) visit(i, number);
    }
  };
  for_each_returned(
      [&](size_t i, size_t number) { bound.arguments[i] = registers::Value(tensors_[number]); });
  registers::Value result;
  Status status = call(*bound.function, bound.arguments, &result);
  if (!status.ok()) {
    status = Annotate(status, bound.function->name());
  } else if (step.result_buffer >= 0) {
    status = tensors_.PlaceReturned(static_cast<size_t>(step.result_buffer), result,
                                    bound.function->name(), bound.arguments,
                                    context.session.registers());
  }
  // They are to go when the plan drops them.
  for_each_returned([&](size_t i, size_t) { bound.arguments[i] = registers::Value(); });
  return status;
}

Status BoundPlan::RunStep(const CollectiveContext& context, const plan::ProgramStep& step,
                          CallFunction call) {
  const auto dtype_of = [&](int buffer) {
    return prepared_->steps.buffers[static_cast<size_t>(buffer)].dtype;
  };
  if (const auto* what = std::get_if<plan::CallStep>(&step.what)) {
    return RunCall(context, *what, calls_[next_call_++], call);
  }
  if (const auto* copy = std::get_if<plan::CopyStep>(&step.what)) {
    RunCopy(*copy, tensors_.memory(), SizeOf(dtype_of(copy->to_buffer)));
    return OkStatus();
  }
  if (const auto* fill = std::get_if<plan::FillStep>(&step.what)) {
    RunFill(*fill, tensors_.memory(), dtype_of(fill->to.buffer));
    return OkStatus();
  }
  const auto& collective = std::get<plan::CollectiveStep>(step.what);
  // Calls have named themselves.
  context.activity.Name(FactsOf(collective.kind).name.data(), WorkerActivity::Kind::kCollective);
  const auto [first, last] = std::minmax_element(collective.team.begin(), collective.team.end());
  context.activity.Among(*first, *last);
  return RunCollective(collective, tensors_.memory(), dtype_of(collective.send.buffer),
                       *communicators_[next_communicator_++], Deadline::After(context.timeout));
}

Status BoundPlan::RunRecorded(const CollectiveContext& context, const plan::ProgramStep& step,
                              CallFunction call) {
  const bool is_call = std::holds_alternative<plan::CallStep>(step.what);
  const bool is_collective = std::holds_alternative<plan::CollectiveStep>(step.what);
  const std::string name = is_call ? calls_[next_call_].function->name() : NameOf(step);
  const int64_t began = trace::Now();
  const Status status = RunStep(context, step, call);
  context.spans->AddStep(name, is_collective ? trace::Kind::kCollective : trace::Kind::kCommand,
                         began);
  return status;
}

Status BoundPlan::Execute(const CollectiveContext& context, CallFunction call) {
  if (!kept_->invalid_because.empty()) {
    return FailedPrecondition("the plan cannot be executed any more: ", kept_->invalid_because,
                              "; bind it again");
  }
  LOCKSTEP_RETURN_IF_ERROR(FollowInputs(context));
  next_call_ = 0;
  next_communicator_ = 0;
  const std::vector<plan::ProgramStep>& steps = prepared_->steps.steps;
  const bool is_recorded = context.spans != nullptr && context.spans->is_open();
  for (size_t i = 0; i < steps.size(); ++i) {
    const Status status =
        is_recorded ? RunRecorded(context, steps[i], call) : RunStep(context, steps[i], call);
    if (status.ok()) [[likely]] {
      tensors_.DropAfter(i);
      continue;
    }
    tensors_.DropAll();
    const std::string& where = prepared_->lowered.program->ops()[steps[i].op].where;
    return Annotate(
        status, where + ", step " + std::to_string(i) + " of the plan (" + NameOf(steps[i]) + ")");
  }
  return WriteOutputs(context);
}

}  // namespace lockstep::worker
