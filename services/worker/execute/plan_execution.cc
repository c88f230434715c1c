#include "services/worker/execute/plan_execution.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <variant>

#include "runtime/base/deadline.h"
#include "runtime/base/operations.h"
#include "runtime/control/value_codec.h"
#include "runtime/trace/event.h"
#include "services/worker/execute/step_runner.h"

namespace lockstep::worker {
namespace {

using plan::StepBuffer;
using tensor::Tensor;

constexpr int kNoBuffer = -1;

// As metrics count them: an operation's size is what one rank has where all have as much of the
// same, else what all have together.
CollectiveFacts FactsOfStep(const plan::CollectiveStep& step, const Communicators& team,
                            DType dtype) {
  const bool is_gather = step.kind == OperationKind::kAllGather;
  const auto [first, last] = std::minmax_element(step.team.begin(), step.team.end());
  return {.backend = team.cpus->backend(),
          .ranks = static_cast<int>(step.team.size()),
          .first = *first,
          .bytes =
              static_cast<uint64_t>(is_gather ? step.recv.count : step.send.count) * SizeOf(dtype)};
}

}  // namespace

void BoundSteps::UseTeams(const std::map<plan::Team, Communicators>& by_ranks) {
  for (const plan::ProgramStep& step : prepared->steps.steps) {
    const auto* const collective = std::get_if<plan::CollectiveStep>(&step.what);
    if (collective != nullptr) teams.push_back(&by_ranks.at(collective->team));
  }
}

tensor::Processor& PlaceOf(const CollectiveContext& context, const plan::Program& program) {
  const bool all_have_gpus =
      context.world.gpus != nullptr && !context.world.gpus->WithoutDevice(program.Ranks());
  return all_have_gpus && context.places.gpu != nullptr ? *context.places.gpu
                                                        : *context.places.host;
}

Status PlanExecution::RunCall(const plan::CallStep& step, BoundSteps::Call& bound) {
  if (context_.session.Skips(context_.command)) return Aborted("the session's work is given up");
  PlanTensors& tensors = plan_.tensors;
  const auto for_each_returned = [&](auto&& visit) {
    for (size_t i = 0; i < step.argument_buffers.size(); ++i) {
      const int buffer = step.argument_buffers[i];
      if (buffer < 0) continue;
      const auto number = static_cast<size_t>(buffer);
      if (plan_.prepared->steps.HomeOf(buffer) == StepBuffer::Home::kReturned) {
        visit(i, number);
      }
    }
  };
  for_each_returned(
      [&](size_t i, size_t number) { bound.arguments[i] = registers::Value(tensors[number]); });
  registers::Value result;
  Status status = worker_.call(bound, &result);
  if (!status.ok()) {
    status = Annotate(status, bound.name());
  } else if (step.result_buffer >= 0) {
    status =
        tensors.PlaceReturned(static_cast<size_t>(step.result_buffer), result, bound.name(),
                              bound.arguments, plan_.place->device(), context_.session.registers());
  }
  // They are to go when the plan drops them.
  for_each_returned([&](size_t i, size_t) { bound.arguments[i] = registers::Value(); });
  return status;
}

void PlanExecution::TellOfWait(const plan::CollectiveStep& step) const {
  context_.activity.Name(FactsOf(step.kind).name.data(), WorkerActivity::Kind::kCollective);
  const auto [first, last] = std::minmax_element(step.team.begin(), step.team.end());
  context_.activity.Among(*first, *last);
}

Status PlanExecution::RunCollective(const plan::CollectiveStep& step, size_t number) {
  // Calls have named themselves.
  TellOfWait(step);
  if (plan_.is_on_gpu()) return RunOnGpus(step, number);
  const Communicators& team = *plan_.teams[number];
  const auto began = Deadline::Clock::now();
  const Status status =
      worker::RunCollective(step, plan_.tensors.memory(), plan_.DTypeOf(step.send.buffer),
                            *team.cpus, Deadline::After(context_.timeout));
  if (status.ok()) CountCollective(step, team, Deadline::Clock::now() - began);
  return status;
}

Status PlanExecution::RunOnGpus(const plan::CollectiveStep& step, size_t number) {
  const Communicators& team = *plan_.teams[number];
  AgreedCollective* const agreed = plan_.agreed.empty() ? nullptr : &plan_.agreed[number];
  if (agreed != nullptr) {
    if (agreed->asks_again) agreed->what.is_known = false;
    team.gpus->UseAgreed(&agreed->what);
  }
  const Status status =
      worker::RunCollective(step, plan_.tensors.memory(), plan_.DTypeOf(step.send.buffer),
                            *team.gpus, Deadline::After(context_.timeout));
  if (agreed != nullptr) {
    team.gpus->UseAgreed(nullptr);
    // A capture is of what is known; if it fails on this rank alone, the others know it still.
    if (mode_ == Mode::kExecute) agreed->what.is_known = status.ok();
  }
  NoteCollective(step, team);
  return status;
}

void PlanExecution::CountCollective(const plan::CollectiveStep& step, const Communicators& team,
                                    std::chrono::nanoseconds took) const {
  if (worker_.recorder == nullptr) return;
  const CollectiveCost cost = worker_.recorder->AddTimedCollective(
      control::ToWire(step.kind), FactsOfStep(step, team, plan_.DTypeOf(step.send.buffer)), took);
  context_.activity.AddCollective(cost.bus_bytes, cost.duration);
}

void PlanExecution::NoteCollective(const plan::CollectiveStep& step, const Communicators& team) {
  CollectiveFacts facts = FactsOfStep(step, team, plan_.DTypeOf(step.send.buffer));
  if (mode_ == Mode::kCapture) return;
  facts.backend = team.gpus->backend();
  // Also after an error: some of it may have been put in.
  if (team.gpus->connection() == nullptr) return;
  GpuWorkTracker::Communication communication{.command = context_.command,
                                              .kind = control::ToWire(step.kind),
                                              .facts = facts,
                                              .connection = team.gpus->connection(),
                                              .timeout = context_.timeout,
                                              .steps = {plan_.names, step_, step_}};
  // What is empty has any buffer.
  if (step.send.count > 0) {
    communication.Read(plan_.tensors[static_cast<size_t>(step.send.buffer)]);
  }
  if (step.recv.count > 0) {
    communication.Write(plan_.tensors[static_cast<size_t>(step.recv.buffer)]);
  }
  worker_.gpu->NoteCollective(worker_.session, std::move(communication));
}

Status PlanExecution::NoteWork(const char* what, int reads, int writes) {
  if (!plan_.is_on_gpu() || mode_ == Mode::kCapture) [[likely]]
    return OkStatus();
  GpuWorkTracker::Computation computation{
      .command = context_.command, .what = what, .steps = {plan_.names, step_, step_}};
  const auto add = [&](int buffer, TensorMemory* memory) {
    if (buffer == kNoBuffer) return;
    const Tensor& tensor = plan_.tensors[static_cast<size_t>(buffer)];
    if (!tensor.IsNull()) memory->push_back({tensor.data(), tensor.size_bytes()});
  };
  add(reads, &computation.reads);
  add(writes, &computation.writes);
  return worker_.gpu->Note(context_.session, computation);
}

Status PlanExecution::RunStep(const plan::ProgramStep& step) {
  if (const auto* call = std::get_if<plan::CallStep>(&step.what)) {
    return RunCall(*call, plan_.calls[next_call_++]);
  }
  if (const auto* copy = std::get_if<plan::CopyStep>(&step.what)) {
    LOCKSTEP_RETURN_IF_ERROR(RunCopy(*copy, plan_.tensors.memory(),
                                     SizeOf(plan_.DTypeOf(copy->to_buffer)), *plan_.place));
    return NoteWork("copy", copy->from_buffer, copy->to_buffer);
  }
  if (const auto* fill = std::get_if<plan::FillStep>(&step.what)) {
    LOCKSTEP_RETURN_IF_ERROR(
        RunFill(*fill, plan_.tensors.memory(), plan_.DTypeOf(fill->to.buffer), *plan_.place));
    return NoteWork("fill", kNoBuffer, fill->to.buffer);
  }
  return RunCollective(std::get<plan::CollectiveStep>(step.what), next_collective_++);
}

void PlanExecution::RecordStep(size_t number, int64_t began, int64_t ended) const {
  if (context_.spans == nullptr || !context_.spans->is_open()) return;
  const plan::Program& program = *plan_.prepared->lowered.program;
  const plan::ProgramStep& step = plan_.prepared->steps.steps[number];
  const bool is_collective = std::holds_alternative<plan::CollectiveStep>(step.what);
  std::string name = KindOf(step);
  if (const auto* call = std::get_if<plan::CallStep>(&step.what)) {
    const auto& op = std::get<plan::CallOp>(program.ops()[call->op].what);
    name = program.functions()[static_cast<size_t>(op.function)];
  }
  const std::string where = plan::LinesOf(program, step);
  if (!where.empty()) name += ", " + where;
  context_.spans->AddStep({.number = static_cast<uint32_t>(number),
                           .name = name,
                           .kind = is_collective ? trace::Kind::kCollective : trace::Kind::kCommand,
                           .lane = static_cast<uint16_t>(step.lane),
                           .began = began,
                           .ended = ended});
}

void PlanExecution::TellOfStep(size_t number) const {
  // A command without lines is all that there is to tell.
  const std::string& place = plan_.names->PlaceOf(number);
  if (!place.empty()) context_.activity.At(place);
}

Status PlanExecution::RunNumber(size_t number) {
  step_ = number;
  TellOfStep(number);
  const plan::ProgramStep& step = plan_.prepared->steps.steps[number];
  const bool is_recorded =
      mode_ == Mode::kExecute && context_.spans != nullptr && context_.spans->is_open();
  if (!is_recorded) [[likely]]
    return RunStep(step);
  const int64_t began = trace::Now();
  const Status status = RunStep(step);
  RecordStep(number, began, trace::Now());
  return status;
}

Status PlanExecution::Run() {
  for (size_t i = 0; i < plan_.prepared->steps.steps.size(); ++i) {
    Status status;
    if (plan_.is_on_gpu() && mode_ == Mode::kExecute)
      status = worker_.gpu->MakeRoom(context_.session, context_.command);
    if (status.ok()) [[likely]]
      status = RunNumber(i);
    if (status.ok()) [[likely]] {
      plan_.tensors.DropBefore(i + 1);
      continue;
    }
    plan_.tensors.DropAll();
    const std::string which = plan_.DescribeStep(i);
    return which.empty() ? status : Annotate(status, which);
  }
  return OkStatus();
}

}  // namespace lockstep::worker
