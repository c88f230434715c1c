#include "services/worker/execute/bound_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/base/log.h"
#include "services/worker/execute/inputs_apart.h"
#include "services/worker/execute/overlapped_execution.h"
#include "services/worker/values/reachable.h"

namespace lockstep::worker {
namespace {

using plan::StepBuffer;
using tensor::Tensor;

registers::Value ToValue(const plan::Literal& literal) {
  return std::visit([](const auto& value) { return registers::Value(value); }, literal);
}

StatusOr<std::shared_ptr<module::Function>> FindFunction(const CollectiveContext& context,
                                                         const std::string& name, RegisterId id) {
  StatusOr<const registers::Value*> value = context.session.registers().Read(id);
  if (!value.ok()) return Annotate(value.status(), "function \"" + name + "\"");
  std::shared_ptr<module::Function> function = module::FunctionOf(**value);
  if (function == nullptr) {
    return InvalidArgument("function \"", name, "\": register ", id, " holds ",
                           registers::Describe(**value), ", which cannot be called");
  }
  return function;
}

// By the numbers of the program's functions that they are.
std::map<int, fragment::ObjectKey> FragmentsOf(wire::Binding::Reader binding) {
  std::map<int, fragment::ObjectKey> keys;
  for (const wire::BoundFragment::Reader one : binding.getFragments()) {
    keys[static_cast<int>(one.getFunction())] = {one.getHigh(), one.getLow()};
  }
  return keys;
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
  const std::shared_ptr<BoundPlan> plan(new BoundPlan(std::move(prepared)));
  if (const Status bound = plan->BindAll(context, binding); !bound.ok()) {
    plan->Undo(context);
    return bound;
  }
  for (const BoundRegister& input : plan->inputs_) {
    context.session.AddInputHolder(input.id.index, plan);
  }
  return plan;
}

Status BoundPlan::BindAll(const CollectiveContext& context, wire::Binding::Reader binding) {
  LOCKSTEP_RETURN_IF_ERROR(
      CheckCount("functions", binding.getFunctions().size(), program().functions().size()));
  LOCKSTEP_RETURN_IF_ERROR(
      CheckCount("inputs", binding.getInputs().size(), program().inputs().size()));
  LOCKSTEP_RETURN_IF_ERROR(
      CheckCount("outputs", binding.getOutputs().size(), program().outputs().size()));
  steps_.place = &PlaceOf(context, program());
  LOCKSTEP_RETURN_IF_ERROR(steps_.tensors.TakeArena(*steps_.place, context.session.registers()));
  LOCKSTEP_RETURN_IF_ERROR(steps_.tensors.ClearArena(*steps_.place));
  LOCKSTEP_RETURN_IF_ERROR(BindRegisters(context, binding));
  LOCKSTEP_RETURN_IF_ERROR(BindCalls(context, binding));
  LOCKSTEP_RETURN_IF_ERROR(Connect(context));
  LOCKSTEP_RETURN_IF_ERROR(PrepareForGpu(context, binding));
  PrepareLanes();
  return OkStatus();
}

Status BoundPlan::AwaitOthers(const CollectiveContext& context) const {
  const auto ranks = kept_->all.find(program().Ranks());
  if (ranks == kept_->all.end() || ranks->second.cpus == nullptr) return OkStatus();
  return ranks->second.cpus->Barrier(Deadline::After(context.timeout));
}

void BoundPlan::Undo(const CollectiveContext& context) {
  for (const BoundRegister& output : outputs_) (void)context.session.Kill(output.id);
}

size_t BoundPlan::HeldBytes() const {
  size_t bytes = steps_.tensors.HeldBytes() + prepared().HeldBytes();
  if (kept_->graphs != nullptr) bytes += kept_->graphs->held_bytes();
  for (const BoundSteps::Call& call : steps_.calls) {
    bytes += sizeof call + call.arguments.size() * sizeof(registers::Value);
  }
  return bytes;
}

std::string BoundPlan::Describe() const {
  const std::string text = "plan of " + std::to_string(prepared().steps.steps.size()) + " steps";
  const std::string how = on_gpu_ == nullptr ? "" : on_gpu_->Describe();
  return how.empty() ? text : text + ", " + how;
}

BoundPlan::BoundRegister BoundPlan::Stands(plan::ValueId id, RegisterId in, size_t buffer) const {
  const plan::ProgramValue& value = program().value(id);
  return {in, buffer, value.name, std::make_shared<const plan::Layout>(value.layout)};
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
  if (tensor->device().type != steps_.place->device().type) {
    return InvalidArgument(role, " (register ", input.id, ") is on ", tensor->device(),
                           ", and the plan works ",
                           steps_.is_on_gpu() ? "on its ranks' GPUs, as all of them have one"
                                              : "in host memory, as some of its ranks have no GPU",
                           ": move it by lockstep.to_device(tensor, \"",
                           steps_.is_on_gpu() ? "cuda" : "cpu", "\") first");
  }
  const registers::LayoutPtr known = context.session.registers().LayoutOf(input.id);
  if (known != nullptr && *known != *input.layout) {
    return InvalidArgument(role, " is ", *input.layout, " in the program, and register ", input.id,
                           " is known to be ", *known,
                           ": say how it lies by DeclareLayout(), if that has changed");
  }
  const StepBuffer& buffer = prepared().steps.buffers[input.buffer];
  if (tensor->dtype() != buffer.dtype || tensor->shape() != buffer.extents) {
    return InvalidArgument("by its layout, this rank's tile of ", role, " is ", buffer.dtype,
                           buffer.extents, ", and register ", input.id, " holds ", tensor->dtype(),
                           tensor->shape());
  }
  return *tensor;
}

Status BoundPlan::BindRegisters(const CollectiveContext& context, wire::Binding::Reader binding) {
  // Each is read once: a message may be read only so much.
  const auto input_ids = binding.getInputs();
  const auto output_ids = binding.getOutputs();
  std::set<uint64_t> taken(input_ids.begin(), input_ids.end());
  for (const uint64_t id : output_ids) {
    if (taken.insert(id).second) continue;
    return InvalidArgument("register ", RegisterId::FromPacked(id),
                           " is to receive an output, and is an input or another output, too");
  }
  for (unsigned i = 0; i < program().inputs().size(); ++i) {
    const plan::ValueId id = program().inputs()[i];
    const auto buffer = static_cast<size_t>(id);
    if (prepared().steps.buffers[buffer].home != StepBuffer::Home::kInput) continue;
    inputs_.push_back(Stands(id, RegisterId::FromPacked(input_ids[i]), buffer));
    LOCKSTEP_ASSIGN_OR_RETURN(Tensor tensor, ReadInput(context, inputs_.back()));
    steps_.tensors.Place(buffer, std::move(tensor));
  }
  for (unsigned i = 0; i < program().outputs().size(); ++i) {
    const plan::ValueId id = program().outputs()[i];
    const auto buffer = static_cast<size_t>(prepared().lowered.HomeOf(id));
    const BoundRegister output = Stands(id, RegisterId::FromPacked(output_ids[i]), buffer);
    const StepBuffer::Home home = prepared().steps.buffers[buffer].home;
    if (home == StepBuffer::Home::kNowhere) continue;
    outputs_.push_back(output);
    if (home != StepBuffer::Home::kArena) continue;
    LOCKSTEP_RETURN_IF_ERROR(
        context.session.Write(output.id, steps_.tensors[buffer], output.layout));
  }
  return CheckInputsApart();
}

Status BoundPlan::CheckInputsApart() const {
  const std::vector<bool> is_written = program().WrittenValues();
  std::vector<PlacedInput> placed;
  for (const BoundRegister& input : inputs_) {
    const Tensor& tensor = steps_.tensors[input.buffer];
    placed.push_back({input.name, input.id, &tensor, is_written[input.buffer],
                      steps_.tensors.IsInArena(tensor)});
  }
  return CheckApart(placed);
}

bool BoundPlan::IsInPlace(const CollectiveContext& context, const BoundRegister& bound) const {
  const StatusOr<const registers::Value*> value = context.session.registers().Read(bound.id);
  const auto* tensor = value.ok() ? (*value)->As<Tensor>() : nullptr;
  const Tensor& own = steps_.tensors[bound.buffer];
  return tensor != nullptr && !own.IsNull() && tensor->dl() == own.dl();
}

Status BoundPlan::WriteOutputs(const CollectiveContext& context) {
  SessionState& session = context.session;
  for (const BoundRegister& output : outputs_) {
    // What a client has declared of the register stays: it may take the tiles for those of another
    // layout.
    registers::LayoutPtr layout = session.registers().LayoutOf(output.id);
    const bool is_known = layout != nullptr;
    if (!is_known) layout = output.layout;
    if (!IsInPlace(context, output)) {
      LOCKSTEP_RETURN_IF_ERROR(
          session.Write(output.id, steps_.tensors[output.buffer], std::move(layout)));
    } else if (!is_known) {
      LOCKSTEP_RETURN_IF_ERROR(session.SetLayout(output.id, std::move(layout)));
    }
  }
  return OkStatus();
}

void BoundPlan::LetGo(uint32_t register_index) {
  for (const BoundRegister& input : inputs_) {
    if (input.id.index == register_index) steps_.tensors.LetGo(input.buffer);
  }
  PassInputs();
}

StatusOr<std::shared_ptr<BoundFragment>> BoundPlan::FindFragment(
    const CollectiveContext& context, size_t op, const fragment::ObjectKey& key) const {
  const plan::ProgramOp& called = program().ops()[op];
  const auto& call = std::get<plan::CallOp>(called.what);
  const auto annotate = [&](const Status& why) {
    const std::string& name = program().functions()[static_cast<size_t>(call.function)];
    return Annotate(why, called.where.empty() ? name : called.where + ": " + name);
  };
  // Whatever its key says: only what was granted to the session is found.
  StatusOr<const SessionFragments::Entry*> entry = context.session.fragments().Find(key);
  if (!entry.ok()) return annotate(entry.status());
  StatusOr<std::shared_ptr<BoundFragment>> bound =
      BoundFragment::Bind(**entry, program(), call, context.rank);
  if (!bound.ok()) return annotate(bound.status());
  return bound;
}

Status BoundPlan::BindCalls(const CollectiveContext& context, wire::Binding::Reader binding) {
  const auto function_ids = binding.getFunctions();
  const std::map<int, fragment::ObjectKey> fragments = FragmentsOf(binding);
  for (const plan::ProgramStep& step : prepared().steps.steps) {
    const auto* call = std::get_if<plan::CallStep>(&step.what);
    if (call == nullptr) continue;
    const auto& op = std::get<plan::CallOp>(program().ops()[call->op].what);
    BoundSteps::Call bound;
    if (const auto key = fragments.find(op.function); key != fragments.end()) {
      LOCKSTEP_ASSIGN_OR_RETURN(bound.fragment, FindFragment(context, call->op, key->second));
    } else {
      const auto number = static_cast<unsigned>(op.function);
      LOCKSTEP_ASSIGN_OR_RETURN(bound.function,
                                FindFunction(context, program().functions()[number],
                                             RegisterId::FromPacked(function_ids[number])));
    }
    for (size_t i = 0; i < op.arguments.size(); ++i) {
      const int buffer = call->argument_buffers[i];
      bound.arguments.push_back(
          buffer < 0 ? ToValue(op.arguments[i].literal)
                     : registers::Value(steps_.tensors[static_cast<size_t>(buffer)]));
    }
    steps_.calls.push_back(std::move(bound));
  }
  return OkStatus();
}

StatusOr<Communicators> BoundPlan::CommunicatorsOf(const CollectiveContext& context,
                                                   const plan::Team& team, size_t* own) {
  if (auto known = context.session.FindKept(team)) return *std::move(known);
  const bool is_in = std::find(team.begin(), team.end(), context.rank) != team.end();
  if (is_in && ++*own > kMaxTeams) {
    return ResourceExhausted("the session's plans connect this rank with others in more than ",
                             kMaxTeams,
                             " different teams; free plans that are done, or "
                             "reshard between fewer different meshes");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const Communicators* const connected,
                            context.session.CommunicatorsOf(
                                {TeamName::Kind::kPlans, team}, is_in ? team : std::vector<Rank>(),
                                context.world, Deadline::After(context.timeout)));
  return is_in ? *connected : Communicators();
}

// All ranks go through all teams in one order, as CommunicatorCache wants it, and each team once.
Status BoundPlan::Connect(const CollectiveContext& context) {
  size_t own = context.session.CountKept();
  for (const std::shared_ptr<const plan::Teams>& teams : prepared().steps.teams) {
    for (const plan::Team& team : *teams) {
      if (kept_->all.contains(team)) continue;
      LOCKSTEP_ASSIGN_OR_RETURN(const Communicators connected,
                                CommunicatorsOf(context, team, &own));
      kept_->all.emplace(team, connected);
      if (connected.cpus == nullptr || !steps_.is_on_gpu()) continue;
      LOCKSTEP_RETURN_IF_ERROR(connected.gpus->Connect(Deadline::After(context.timeout)));
    }
  }
  // Those who agree that they are bound, and, on GPUs, on executions.
  const plan::Team ranks = program().Ranks();
  if (ranks.size() > 1 && !kept_->all.contains(ranks)) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Communicators connected, CommunicatorsOf(context, ranks, &own));
    kept_->all.emplace(ranks, connected);
  }
  steps_.UseTeams(kept_->all);
  context.session.Keep(kept_);
  return OkStatus();
}

Status BoundPlan::PrepareForGpu(const CollectiveContext& context, wire::Binding::Reader binding) {
  if (!steps_.is_on_gpu()) return OkStatus();
  // Also those that this rank does not call.
  std::vector<bool> may_be_captured;
  for (const uint64_t id : binding.getFunctions()) {
    const auto value = context.session.registers().Read(RegisterId::FromPacked(id));
    const auto function = value.ok() ? module::FunctionOf(**value) : nullptr;
    may_be_captured.push_back(function != nullptr && function->MayBeCaptured());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(on_gpu_,
                            GpuPlan::Bind(steps_, *kept_, std::move(may_be_captured), context));
  return OkStatus();
}

void BoundPlan::PrepareLanes() {
  const std::vector<plan::ProgramStep>& steps = prepared().steps.steps;
  if (!prepared().steps.lanes_overlap || steps_.is_on_gpu()) return;
  const auto exchanges = std::count_if(steps.begin(), steps.end(), [](const auto& step) {
    return step.lane == plan::Lane::kCommunication;
  });
  if (exchanges == static_cast<std::ptrdiff_t>(steps.size())) return;
  steps_.exchange_times.resize(static_cast<size_t>(exchanges));
}

void BoundPlan::DropOutputs(const CollectiveContext& context) {
  const bool may_change =
      std::any_of(steps_.teams.begin(), steps_.teams.end(),
                  [](const Communicators* team) { return team->cpus->RecvMayStillChange(); });
  if (!may_change) return;
  for (const BoundRegister& output : outputs_) {
    if (prepared().steps.buffers[output.buffer].home == StepBuffer::Home::kInput) continue;
    if (context.session.Kill(output.id).ok()) {
      log::Warn(log::OfSession(context.session.id().value), "register ", output.id.Packed(),
                " holds no value any more: a rank that was stopped may still write to it");
    }
  }
}

Status BoundPlan::FollowInputs(const CollectiveContext& context) {
  bool has_moved = false;
  for (const BoundRegister& input : inputs_) {
    if (IsInPlace(context, input)) [[likely]]
      continue;
    LOCKSTEP_ASSIGN_OR_RETURN(Tensor other, ReadInput(context, input));
    steps_.tensors.Place(input.buffer, std::move(other));
    has_moved = true;
  }
  if (!has_moved) [[likely]]
    return OkStatus();
  PassInputs();
  return CheckInputsApart();
}

void BoundPlan::PassInputs() {
  size_t next_call = 0;
  for (const plan::ProgramStep& step : prepared().steps.steps) {
    const auto* call = std::get_if<plan::CallStep>(&step.what);
    if (call == nullptr) continue;
    BoundSteps::Call& bound = steps_.calls[next_call++];
    for (size_t i = 0; i < call->argument_buffers.size(); ++i) {
      const int buffer = call->argument_buffers[i];
      if (buffer < 0) continue;
      const auto number = static_cast<size_t>(buffer);
      if (prepared().steps.HomeOf(buffer) != StepBuffer::Home::kInput) continue;
      bound.arguments[i] = registers::Value(steps_.tensors[number]);
    }
  }
}

Status BoundPlan::Run(const PlanExecution::Worker& worker) {
  if (on_gpu_ != nullptr) return on_gpu_->Execute(worker);
  const bool overlaps = worker.lane != nullptr && !steps_.exchange_times.empty();
  return overlaps ? OverlappedExecution(steps_, worker, *worker.lane).Run()
                  : PlanExecution(steps_, worker).Run();
}

Status BoundPlan::Execute(const PlanExecution::Worker& worker) {
  if (!kept_->invalid_because.empty()) {
    return FailedPrecondition("the plan cannot be executed any more: ", kept_->invalid_because,
                              "; bind it again");
  }
  LOCKSTEP_RETURN_IF_ERROR(FollowInputs(worker.context));
  const Status executed = Run(worker);
  if (!executed.ok()) {
    DropOutputs(worker.context);
    return executed;
  }
  return WriteOutputs(worker.context);
}

}  // namespace lockstep::worker
