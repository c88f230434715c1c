#include "services/worker/execute/gpu_plan.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/cleanup/cleanup.h"
#include "runtime/base/log.h"
#include "runtime/collective/call.h"
#include "runtime/trace/event.h"
#include "services/worker/execute/step_runner.h"

namespace lockstep::worker {
namespace {

using plan::StepBuffer;

// The first call that cannot be captured, on whatever rank; empty: there is none.
std::string WhyNot(const plan::Program& program, const std::vector<bool>& may_be_captured) {
  for (const plan::ProgramOp& op : program.ops()) {
    const auto* const call = std::get_if<plan::CallOp>(&op.what);
    if (call == nullptr) continue;
    const auto function = static_cast<size_t>(call->function);
    if (may_be_captured[function]) continue;
    return op.where + " calls " + program.functions()[function] +
           ", which does not say that it may be captured";
  }
  return "";
}

// The first collective whose place in registered memory is not known before it is executed, because
// it is passed what a function returns, or a part of that; empty: there is none.
std::string PassesReturned(const BoundSteps& steps) {
  const plan::ProgramSteps& all = steps.prepared->steps;
  size_t number = 0;
  for (const plan::ProgramStep& step : all.steps) {
    const auto* const collective = std::get_if<plan::CollectiveStep>(&step.what);
    if (collective == nullptr || !steps.teams[number++]->gpus->HasPlaces()) continue;
    for (const plan::Span* span : {&collective->send, &collective->recv}) {
      if (span->count == 0 || all.HomeOf(span->buffer) != StepBuffer::Home::kReturned) continue;
      return plan::LinesOf(*steps.prepared->lowered.program, step) +
             " passes on what a function returns, which lies elsewhere in registered memory each "
             "time";
    }
  }
  return "";
}

}  // namespace

StatusOr<std::unique_ptr<GpuPlan>> GpuPlan::Bind(BoundSteps& steps, KeptCommunicators& kept,
                                                 std::vector<bool> may_be_captured,
                                                 const CollectiveContext& context) {
  std::unique_ptr<GpuPlan> plan(new GpuPlan(steps, kept));
  const plan::Program& program = *steps.prepared->lowered.program;
  if (Meets(steps)) {
    const Communicators& ranks = kept.all.at(program.Ranks());
    if (ranks.cpus != nullptr) {
      plan->agreement_ = std::make_unique<PlanAgreement>(*ranks.cpus, steps.prepared->key);
      LOCKSTEP_ASSIGN_OR_RETURN(
          may_be_captured, plan->agreement_->AgreeOnFunctions(std::move(may_be_captured),
                                                              Deadline::After(context.timeout)));
      steps.agreed = AgreedCollectivesOf(*steps.prepared, may_be_captured);
    }
  }
  std::string why_not = WhyNot(program, may_be_captured);
  const std::string passed = PassesReturned(steps);
  plan->asks_each_time_ = !passed.empty();
  if (why_not.empty()) why_not = passed;
  kept.graphs = std::make_shared<PlanGraphs>(std::move(why_not));
  return plan;
}

std::string GpuPlan::Describe() const {
  if (kept_.graphs == nullptr) return "";
  if (!graphs().why_not().empty()) return "step by step, as " + graphs().why_not();
  return graphs().count() == 0 ? "not captured yet" : "one graph on its GPU";
}

void GpuPlan::LookAtPlaces(PlanAgreement::Ready* ready) {
  ready->asks_each_time = asks_each_time_ ? 1 : 0;
  if (asks_each_time_) return;
  uint64_t places = 0;
  size_t number = 0;
  const StepMemory memory = steps_.tensors.memory();
  for (const plan::ProgramStep& step : steps().steps) {
    const auto* const collective = std::get_if<plan::CollectiveStep>(&step.what);
    if (collective == nullptr) continue;
    const collective::DeviceCommunicator& team = *steps_.teams[number++]->gpus;
    if (!team.HasPlaces()) continue;
    const DType dtype = steps_.DTypeOf(collective->send.buffer);
    places = collective::Mix(places, team.PlaceOf(BufferOf(collective->send, memory, dtype),
                                                  BufferOf(collective->recv, memory, dtype)));
  }
  ready->has_moved = places != std::exchange(places_, places) ? 1 : 0;
}

StatusOr<PlanAgreement::Verdict> GpuPlan::Agree(const PlanExecution::Worker& worker) {
  const CollectiveContext& context = worker.context;
  PlanAgreement::Ready ready{.command = context.command};
  LookAtPlaces(&ready);
  ready.may_capture = worker.captures && graphs().why_not().empty() && worker.gpu != nullptr;
  std::vector<const void*> inputs;
  for (size_t i = 0; i < steps().buffers.size(); ++i) {
    if (steps().buffers[i].home == StepBuffer::Home::kInput) {
      inputs.push_back(steps_.tensors.memory()[i]);
    }
  }
  graphs().Look(std::move(inputs), &ready);
  if (agreement_ == nullptr) {
    return PlanAgreement::Verdict{.is_known = true,
                                  .graphs = ready.graphs,
                                  .buffers = ready.buffers,
                                  .may_capture = ready.may_capture != 0};
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const PlanAgreement::Verdict verdict,
                            agreement_->Begin(ready, Deadline::After(context.timeout)));
  if (!verdict.is_known) {
    for (AgreedCollective& agreed : steps_.agreed) agreed.what.is_known = false;
  }
  return verdict;
}

StatusOr<GpuPlan::Graph> GpuPlan::Capture(const PlanExecution::Worker& worker) {
  LOCKSTEP_RETURN_IF_ERROR(worker.gpu->BeginCapture());
  Status status = PlanExecution(steps_, worker, PlanExecution::Mode::kCapture).Run();
  auto captured = worker.gpu->EndCapture();
  LOCKSTEP_RETURN_IF_ERROR(status);
  auto graph = std::make_shared<PlanGraph>();
  graph->what = "plan";
  if (const StepRange all = AllSteps(); all.names != nullptr) {
    graph->what += ", steps 0 to " + std::to_string(all.last);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(graph->graph, std::move(captured));
  LOCKSTEP_RETURN_IF_ERROR(
      worker.context.session.registers().CheckRoom(graph->graph->held_bytes()));
  for (const Communicators* const team : steps_.teams) {
    const auto connection = team->gpus->connection();
    const bool is_new = std::find(graph->connections.begin(), graph->connections.end(),
                                  connection) == graph->connections.end();
    if (is_new && connection != nullptr) graph->connections.push_back(connection);
  }
  for (size_t i = 0; i < steps().buffers.size(); ++i) {
    if (steps().buffers[i].home != StepBuffer::Home::kReturned) continue;
    if (!steps_.tensors[i].IsNull()) graph->returned.emplace_back(i, steps_.tensors[i]);
  }
  return graph;
}

StatusOr<bool> GpuPlan::CaptureOnAllRanks(const PlanExecution::Worker& worker, size_t place) {
  StatusOr<Graph> graph = Capture(worker);
  bool all_have = graph.ok();
  if (agreement_ != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        all_have, agreement_->AllAreDone(graph.ok(), Deadline::After(worker.context.timeout)));
  }
  if (all_have) {
    graphs().Put(place, *std::move(graph));
    return true;
  }
  graphs().GiveUp(graph.ok() ? "another rank could not capture it"
                             : "it could not be captured: " + Message(graph.status()));
  log::Warn(log::OfSession(worker.context.session.id().value),
            "a plan is executed step by step, as ", graphs().why_not());
  return false;
}

StepRange GpuPlan::AllSteps() const {
  if (steps().steps.empty()) return {};  // this rank has a part in it without doing anything
  return {steps_.names, 0, steps().steps.size() - 1};
}

// A collective may take that long, and a graph is many of them, and what is computed in between.
std::chrono::milliseconds GpuPlan::LimitOf(const PlanGraph& graph,
                                           std::chrono::milliseconds timeout) const {
  using std::chrono::milliseconds;
  if (graph.longest.count() == 0) return timeout * std::max<size_t>(steps_.teams.size(), 1);
  return timeout + 2 * std::chrono::duration_cast<milliseconds>(graph.longest);
}

GpuWorkTracker::Communication GpuPlan::MemoryOf(const PlanGraph& graph,
                                                const CollectiveContext& context) const {
  GpuWorkTracker::Communication memory;
  memory.command = context.command;
  memory.timeout = LimitOf(graph, context.timeout);
  memory.steps = AllSteps();
  const std::vector<bool> is_written = steps_.prepared->lowered.program->WrittenValues();
  for (size_t i = 0; i < steps().buffers.size(); ++i) {
    const StepBuffer& buffer = steps().buffers[i];
    if (buffer.home != StepBuffer::Home::kInput || steps_.tensors[i].IsNull()) continue;
    if (is_written[i]) {
      memory.Write(steps_.tensors[i]);
    } else {
      memory.Read(steps_.tensors[i]);
    }
  }
  for (const auto& [buffer, tensor] : graph.returned) memory.Write(tensor);
  memory.Write(steps_.tensors.arena());
  return memory;
}

Status GpuPlan::Launch(const PlanExecution::Worker& worker, const Graph& graph) {
  const CollectiveContext& context = worker.context;
  if (context.session.Skips(context.command)) return Aborted("the session's work is given up");
  LOCKSTEP_RETURN_IF_ERROR(worker.gpu->MakeRoom(context.session, context.command));
  const std::vector<Rank> ranks = steps_.prepared->lowered.program->Ranks();
  const int64_t began = trace::Now();
  GpuWorkTracker::Communication communication = MemoryOf(*graph, context);
  const StepRange range = communication.steps;
  const Status launched = worker.gpu->Launch(worker.session, graph, {ranks.front(), ranks.back()},
                                             std::move(communication));
  if (!launched.ok()) return Annotate(launched, range.Name());
  for (const auto& [buffer, tensor] : graph->returned) steps_.tensors.Place(buffer, tensor);
  if (context.spans != nullptr && context.spans->is_open()) {
    context.spans->AddStep({.number = 0,
                            .name = "graph, " + range.Name(),
                            .kind = trace::Kind::kCollective,
                            .began = began,
                            .ended = trace::Now()});
  }
  return OkStatus();
}

Status GpuPlan::Execute(const PlanExecution::Worker& worker) {
  // This rank has no part in it.
  if (steps().steps.empty() && agreement_ == nullptr) return OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(const PlanAgreement::Verdict verdict, Agree(worker));
  const PlanGraphs::Choice choice = graphs().Choose(verdict);
  bool is_graph = choice.way == PlanGraphs::Way::kLaunch;
  if (choice.way == PlanGraphs::Way::kCapture) {
    LOCKSTEP_ASSIGN_OR_RETURN(is_graph, CaptureOnAllRanks(worker, choice.place));
  }
  return is_graph ? Launch(worker, graphs().At(choice.place)) : PlanExecution(steps_, worker).Run();
}

}  // namespace lockstep::worker
