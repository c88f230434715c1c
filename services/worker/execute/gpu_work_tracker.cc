#include "services/worker/execute/gpu_work_tracker.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "runtime/base/backoff.h"
#include "runtime/base/log.h"
#include "services/worker/execute/team.h"

namespace lockstep::worker {
namespace {

using std::chrono::microseconds;

// At once for as long as a small kernel and its launch take.
constexpr Backoff::Pace kPace{microseconds(200), microseconds(10), microseconds(500)};
// A wait ends because the session is aborted, not by itself.
constexpr std::chrono::hours kAsLongAsItTakes{24 * 365};

void AddMemoryOf(const registers::Value& value, TensorMemory* memory) {
  registers::ForEachIn(value, [&](const registers::Value& each) {
    const auto* const tensor = each.As<tensor::Tensor>();
    if (tensor == nullptr || tensor->IsNull() || tensor->size_bytes() == 0) return;
    memory->push_back({tensor->data(), tensor->size_bytes()});
  });
}

}  // namespace

GpuWorkTracker::GpuWorkTracker(std::shared_ptr<collective::Accelerator> gpu,
                               SessionDirectory& sessions, ControllerReports& reports,
                               control::ActivityPage& activity, Recorder* recorder,
                               const RunningCommand& running, std::function<void()> while_waiting)
    : gpu_(std::move(gpu)),
      in_flight_(*gpu_),
      sessions_(sessions),
      reports_(reports),
      activity_(activity),
      recorder_(recorder),
      running_(running),
      while_waiting_(std::move(while_waiting)) {
  gpu_->processor().SetWaitLimit({Deadline::After(kAsLongAsItTakes), [this]() -> Status {
                                    Look();
                                    if (!loss_.ok()) return loss_;
                                    while_waiting_();
                                    const auto session = executing_for_.lock();
                                    return session == nullptr
                                               ? OkStatus()
                                               : StillWanted(*session, running_.number);
                                  }});
}

GpuWorkTracker::~GpuWorkTracker() {
  gpu_->processor().SetWaitLimit({Deadline::After(std::chrono::seconds(0))});
  Forget();
}

Status GpuWorkTracker::BeforeCall(absl::Span<const registers::Value> arguments) {
  Status status;
  for (const registers::Value& argument : arguments) {
    registers::ForEachIn(argument, [&](const registers::Value& value) {
      if (const auto* tensor = value.As<tensor::Tensor>()) {
        if (tensor->IsNull() || tensor->device().type == DeviceType::kCpu) return;
        status.Update(gpu_->BeforeCompute({tensor->data(), tensor->size_bytes()}));
      } else if (value.Is<std::shared_ptr<registers::Object>>()) {
        status.Update(gpu_->BeforeComputeOnAnything());
      }
    });
  }
  return status;
}

Status GpuWorkTracker::Note(SessionState& session, const Computation& computation) {
  if (is_capturing_) return OkStatus();
  if (!gpu_->processor().TakeWasUsed() && !computation.may_have_used) return OkStatus();
  GpuWork work;
  work.session = session.id();
  work.generation = session.generation();
  work.command = computation.command;
  work.what = computation.what;
  work.steps = computation.steps;
  for (size_t i = 0; computation.function != nullptr && i < computation.arguments.size(); ++i) {
    AddMemoryOf(computation.arguments[i],
                computation.function->MayWriteTo(i) ? &work.writes : &work.reads);
  }
  if (computation.result != nullptr) AddMemoryOf(*computation.result, &work.writes);
  work.reads.insert(work.reads.end(), computation.reads.begin(), computation.reads.end());
  work.writes.insert(work.writes.end(), computation.writes.begin(), computation.writes.end());
  const Status wanted = StillWanted(session, computation.command);
  if (!wanted.ok()) DropValues(session, work.writes);
  LOCKSTEP_RETURN_IF_ERROR(in_flight_.Add(std::move(work)));
  was_noted_ = true;
  return wanted;
}

void GpuWorkTracker::Communication::Use(const registers::Value& value, TensorMemory* memory) {
  AddMemoryOf(value, memory);
  const auto* const tensor = value.As<tensor::Tensor>();
  if (tensor == nullptr || tensor->IsNull() || tensor->device().type == DeviceType::kCpu) return;
  if (!tensor->storage()->GoesBackInOrder()) held.push_back(*tensor);
}

void GpuWorkTracker::NoteCollective(const std::shared_ptr<SessionState>& session, uint64_t command,
                                    wire::Command::Collective::Reader collective,
                                    const CollectiveOutcome& outcome,
                                    std::chrono::milliseconds timeout) {
  Communication communication{.command = command,
                              .kind = collective.getKind(),
                              .facts = outcome.facts,
                              .connection = outcome.connection,
                              .timeout = timeout};
  const auto source = session->registers().Read(RegisterId::FromPacked(collective.getSource()));
  if (source.ok()) communication.Read(**source);
  const auto destination =
      session->registers().Read(RegisterId::FromPacked(collective.getDestination()));
  if (destination.ok()) communication.Write(**destination);
  NoteCollective(session, std::move(communication));
}

void GpuWorkTracker::NoteCollective(const std::shared_ptr<SessionState>& session,
                                    Communication communication) {
  const CollectiveFacts facts = communication.facts;
  GpuWork work;
  work.what = Name(communication.kind);
  work.kind = WorkerActivity::Kind::kCollective;
  work.first = facts.first;
  work.last = facts.first + facts.ranks - 1;
  work.done = [this, kind = communication.kind, facts](std::chrono::nanoseconds took) {
    if (recorder_ == nullptr) return;
    const CollectiveCost cost = recorder_->AddTimedCollective(kind, facts, took);
    activity_.AddCollective(cost.bus_bytes, cost.duration);
  };
  work.connections = {communication.connection};
  NoteCommunication(session, std::move(work), std::move(communication));
}

void GpuWorkTracker::NoteCommunication(const std::shared_ptr<SessionState>& session, GpuWork work,
                                       Communication communication) {
  const collective::CommunicationSpan span = gpu_->TakeLastCommunication();
  // Of nothing, or it failed before anything was put there.
  if (span.ended == nullptr) return;
  work.session = session->id();
  work.generation = session->generation();
  work.command = communication.command;
  work.steps = std::move(communication.steps);
  work.reads = std::move(communication.reads);
  work.writes = std::move(communication.writes);
  work.held = std::move(communication.held);
  work.time_limit = communication.timeout;
  work.done = [this, session, count = std::move(work.done), generation = work.generation,
               command = work.command,
               parts = work.connections.size()](std::chrono::nanoseconds took) {
    bool is_whole = true;
    for (size_t i = 0; i < parts; ++i) is_whole = session->EndOnGpu() && is_whole;
    if (!is_whole) return Spoil(*session, {generation, command});
    if (count) count(took);
  };
  work.give_up = [session, generation = work.generation, command = work.command] {
    session->GiveUpOnGpu(generation, command);
  };
  for (const auto& connection : work.connections) {
    session->BeginOnGpu({work.generation, work.command, connection, span.ended, gpu_});
  }
  was_noted_ = true;
  in_flight_.AddCommunication(std::move(work), span);
}

Status GpuWorkTracker::BeginCapture() {
  LOCKSTEP_RETURN_IF_ERROR(gpu_->BeginCapture());
  is_capturing_ = true;
  return OkStatus();
}

StatusOr<std::unique_ptr<collective::DeviceGraph>> GpuWorkTracker::EndCapture() {
  is_capturing_ = false;
  (void)gpu_->processor().TakeWasUsed();
  return gpu_->EndCapture();
}

Status GpuWorkTracker::Launch(const std::shared_ptr<SessionState>& session,
                              const std::shared_ptr<PlanGraph>& graph, Ranks ranks,
                              Communication communication) {
  TensorMemory memory = communication.reads;
  memory.insert(memory.end(), communication.writes.begin(), communication.writes.end());
  const Status launched = gpu_->Launch(*graph->graph, memory);
  GpuWork work;
  work.what = graph->what;
  work.kind = graph->connections.empty() ? WorkerActivity::Kind::kCommand
                                         : WorkerActivity::Kind::kCollective;
  work.first = ranks.first;
  work.last = ranks.last;
  work.connections = graph->connections;
  work.graph = graph;
  work.done = [graph](std::chrono::nanoseconds took) {
    graph->longest = std::max(graph->longest, took);
  };
  // Also after an error: some of it may have been put in.
  NoteCommunication(session, std::move(work), std::move(communication));
  return launched;
}

void GpuWorkTracker::Look() {
  if (!loss_.ok()) return;
  int collected = 0;
  const Status status = in_flight_.empty() ? gpu_->Loss() : in_flight_.Collect(&collected);
  CountCompleted(collected);
  if (!status.ok()) return FailOldest(status);
  if (in_flight_.empty()) return;
  const GpuWork& oldest = in_flight_.oldest();
  if (recorder_ != nullptr) {
    activity_.Show(oldest.session, oldest.command, oldest.what, oldest.steps.Place(), oldest.kind,
                   oldest.first, oldest.last, in_flight_.since());
  }
  // An error makes others of it.
  const auto connections = oldest.connections;
  for (const auto& connection : connections) {
    // Of one that was aborted it is known.
    const Status health = connection->is_aborted() ? OkStatus() : connection->Health();
    if (!health.ok() && !connection->is_aborted()) return FailOldest(health);
  }
}

Status GpuWorkTracker::StillWanted(const SessionState& session, uint64_t command) const {
  return session.Skips(command) ? Aborted("the session's work is given up") : OkStatus();
}

Status GpuWorkTracker::Await(const SessionState& session, uint64_t command, size_t most) {
  Backoff backoff(kPace);
  const absl::Cleanup count = [&] {
    if (recorder_ != nullptr) recorder_->AddGpuWait(Deadline::Clock::now() - backoff.began());
  };
  while (true) {
    Look();
    if (!loss_.ok()) return loss_;
    const bool all_are_done = !in_flight_.HasAnyOf(session.id());
    if (in_flight_.size() <= most || (most == 0 && all_are_done)) {
      LOCKSTEP_RETURN_IF_ERROR(StillWanted(session, command));
      if (all_are_done) in_flight_.Confirm(session.id());
      return OkStatus();
    }
    LOCKSTEP_RETURN_IF_ERROR(StillWanted(session, command));
    while_waiting_();
    backoff.Pause();
  }
}

void GpuWorkTracker::GiveUp() {
  // What is done is not cut off. Errors are seen again.
  int collected = 0;
  (void)in_flight_.Collect(&collected);
  CountCompleted(collected);
  in_flight_.ForEach([](const GpuWork& work) {
    if (work.give_up) work.give_up();
  });
  for (const auto& session : sessions_.All()) CutOffCollectives(*session, std::nullopt, 0);
}

void GpuWorkTracker::Spoil(SessionState& session, const CutOff& cut_off) {
  // Of a closed one there are no registers.
  if (sessions_.Find(session.id()).get() != &session) return;
  DropValues(session, in_flight_.SpoiltBy(session.id(), cut_off));
}

void GpuWorkTracker::DropValues(SessionState& session, const TensorMemory& memory) {
  if (memory.empty()) return;
  std::vector<RegisterId> holders;
  session.registers().ForEachLive([&](RegisterId id, const registers::Value& value, size_t) {
    TensorMemory held;
    AddMemoryOf(value, &held);
    const bool is_spoilt =
        std::any_of(held.begin(), held.end(),
                    [&](const collective::MemoryRange& range) { return MeetsAny(memory, range); });
    if (is_spoilt) holders.push_back(id);
  });
  for (const RegisterId id : holders) {
    log::Warn(
        log::OfSession(session.id().value), "register ", id.Packed(),
        " holds no value any more: it was written, or what it is made of, while the session's "
        "collectives were cut off on the GPU");
    (void)session.Kill(id);
  }
}

bool GpuWorkTracker::BlameLoss() {
  if (!loss_.ok()) return false;
  const Status loss = gpu_->Loss();
  if (loss.ok()) return false;
  loss_ = Annotate(loss, "the GPU is lost to this process");
  if (!IsBusy()) return false;
  FailOldest(loss);
  return true;
}

void GpuWorkTracker::FailOldest(const Status& status) {
  const Status loss = gpu_->Loss();
  if (in_flight_.empty()) {
    if (!loss.ok()) loss_ = loss;
    return;
  }
  const GpuWork blamed = in_flight_.oldest();
  Status told = loss.ok() ? status : Annotate(loss, "on the GPU, by " + in_flight_.Blame());
  const std::string steps = blamed.steps.Name();
  if (!steps.empty()) told = Annotate(told, steps);
  const auto session = sessions_.Find(blamed.session);
  if (session != nullptr && session->generation() == blamed.generation) {
    reports_.Fail(*session, blamed.command, blamed.what, told);
    // What it does on the GPU is over for all its ranks.
    session->Abort({blamed.generation, blamed.command, session->failure()});
  }
  if (blamed.give_up) blamed.give_up();
  if (!loss.ok()) {
    loss_ = Annotate(loss, "the GPU is lost to this process");
    Forget();
  }
}

void GpuWorkTracker::Forget() {
  // They count as completed: else this rank would look busy for ever.
  CountCompleted(in_flight_.Abandon());
}

void GpuWorkTracker::CountCompleted(int commands) {
  for (int i = 0; i < commands && recorder_ != nullptr; ++i) activity_.Complete();
}

}  // namespace lockstep::worker
