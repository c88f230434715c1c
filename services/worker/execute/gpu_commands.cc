// What the executor does about its GPU: who waits for it, and who is told what it says.

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "runtime/base/backoff.h"
#include "runtime/base/log.h"
#include "services/worker/execute/executor.h"
#include "services/worker/execute/team.h"

namespace lockstep::worker {
namespace {

using std::chrono::microseconds;

// More commands than this are not put into the streams ahead of what the GPU does. Each is up to a
// dozen kernels, copies and events, and a stream that has about a thousand of them keeps whoever
// adds one waiting in the driver, where no abort reaches him.
constexpr size_t kMostInFlight = 64;
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

void Executor::UseGpu(GpuSide* gpu) {
  gpu_ = gpu;
  call_context_.gpu = &gpu->processor();
  call_context_.gpu_stream = gpu->streams()->compute().handle();
  gpu->processor().SetPatience({Deadline::After(kAsLongAsItTakes), [this]() -> Status {
                                  LookAtGpu();
                                  if (!gpu_loss_.ok()) return gpu_loss_;
                                  AnswerRegisterQueries();
                                  const auto session = executing_for_.lock();
                                  return session != nullptr && session->has_failed()
                                             ? Aborted("the session's work is given up")
                                             : OkStatus();
                                }});
}

std::string Executor::DescribeMemoryUse() {
  std::string text;
  std::lock_guard lock(sessions_mutex_);
  for (const auto& [id, session] : sessions_) {
    text += (text.empty() ? "session " : ", session ") + std::to_string(id.value) + " holds " +
            std::to_string(session->registers().held_bytes()) + " bytes, here and in host memory";
  }
  return text;
}

// What the command that was just executed has put into the compute stream.
Status Executor::NoteGpuWork(SessionState& session, const std::string& what, bool may_have_used,
                             const module::Function* function, const registers::Value* result) {
  if (gpu_ == nullptr) return OkStatus();
  if (!gpu_->processor().TakeWasUsed() && !may_have_used) return OkStatus();
  GpuWork work;
  work.session = session.id();
  work.generation = session.generation();
  work.command = running_.command;
  work.what = what;
  for (size_t i = 0; function != nullptr && i < arguments_.size(); ++i) {
    AddMemoryOf(arguments_[i], function->MayWriteTo(i) ? &work.writes : &work.reads);
  }
  if (result != nullptr) AddMemoryOf(*result, &work.writes);
  const Status wanted = StillWanted(session);
  if (!wanted.ok()) DropValues(session, work.writes);
  LOCKSTEP_RETURN_IF_ERROR(gpu_->in_flight().Add(std::move(work), gpu_->streams()->compute()));
  is_on_gpu_ = true;
  return wanted;
}

void Executor::NoteGpuCollective(const std::shared_ptr<SessionState>& session,
                                 wire::Command::Collective::Reader collective,
                                 const CollectiveOutcome& outcome) {
  const CollectiveFacts& facts = outcome.facts;
  const cuda::CommunicationSpan span = gpu_->streams()->TakeLastCommunication();
  // Of nothing, or it failed before anything was put there.
  if (span.ended == nullptr) return;
  GpuWork work;
  work.session = session->id();
  work.generation = session->generation();
  work.command = running_.command;
  work.what = Name(collective.getKind());
  work.kind = WorkerActivity::Kind::kCollective;
  for (const bool is_destination : {false, true}) {
    const uint64_t packed = is_destination ? collective.getDestination() : collective.getSource();
    const auto value = session->registers().Read(RegisterId::FromPacked(packed));
    if (!value.ok()) continue;
    AddMemoryOf(**value, is_destination ? &work.writes : &work.reads);
    // Tensors of modules go back to whoever made them.
    const auto* const tensor = (*value)->As<tensor::Tensor>();
    if (tensor == nullptr || tensor->device().type == DeviceType::kCpu) continue;
    if (!tensor->storage()->GoesBackInOrder()) work.held.push_back(*tensor);
  }
  work.first = facts.first;
  work.last = facts.first + facts.ranks - 1;
  work.patience = membership_->collective_timeout;
  work.connection = outcome.connection;
  work.done = [this, session, kind = collective.getKind(), facts, generation = work.generation,
               command = running_.command](std::chrono::nanoseconds took) {
    if (!session->EndOnGpu()) return Spoil(*session, {generation, command});
    if (recorder_ == nullptr) return;
    const CollectiveCost cost = recorder_->AddGpuCollective(kind, facts, took);
    activity_.AddCollective(cost.bus_bytes, cost.duration);
  };
  work.give_up = [session, generation = work.generation, command = running_.command] {
    session->GiveUpOnGpu(generation, command);
  };
  session->BeginOnGpu(
      {work.generation, work.command, work.connection, span.ended, gpu_->gpu().shared_from_this()});
  is_on_gpu_ = true;
  gpu_->in_flight().AddCommunication(std::move(work), span);
}

void Executor::Spoil(SessionState& session, const CutOff& cut_off) {
  // Of a closed one there are no registers.
  if (gpu_ == nullptr || FindSession(session.id()).get() != &session) return;
  DropValues(session, gpu_->in_flight().SpoiltBy(session.id(), cut_off));
}

void Executor::DropValues(SessionState& session, const TensorMemory& memory) {
  if (memory.empty()) return;
  std::vector<RegisterId> holders;
  session.registers().ForEachLive([&](RegisterId id, const registers::Value& value, size_t) {
    TensorMemory held;
    AddMemoryOf(value, &held);
    const bool is_spoilt = std::any_of(held.begin(), held.end(), [&](const cuda::Range& range) {
      return MeetsAny(memory, range);
    });
    if (is_spoilt) holders.push_back(id);
  });
  for (const RegisterId id : holders) {
    log::Warn(
        log::OfSession(session.id().value), "register ", id.Packed(),
        " holds no value any more: it was written, or what it is made of, while the session's "
        "collectives were cut off on the GPU");
    WithdrawTicket(session, id.Packed());
    (void)session.registers().Kill(id);
  }
}

void Executor::LookAtGpu() {
  if (gpu_ == nullptr || !gpu_loss_.ok()) return;
  InFlight& in_flight = gpu_->in_flight();
  int collected = 0;
  const Status status = in_flight.empty() ? gpu_->gpu().Loss() : in_flight.Collect(&collected);
  CountCompleted(collected);
  if (!status.ok()) return FailOnGpu(status);
  if (recorder_ != nullptr) {
    if (!in_flight.empty()) {
      const GpuWork& oldest = in_flight.oldest();
      activity_.Show(oldest.session, oldest.command, oldest.what, oldest.kind, oldest.first,
                     oldest.last, in_flight.since());
    }
  }
  if (in_flight.empty() || in_flight.oldest().kind != WorkerActivity::Kind::kCollective) return;
  collective::nccl::Connection& connection = *in_flight.oldest().connection;
  // Of one that was aborted it is known.
  const Status health = connection.is_aborted() ? OkStatus() : connection.Health();
  if (!health.ok() && !connection.is_aborted()) FailOnGpu(health);
}

void Executor::GiveUpGpuWork() {
  if (gpu_ == nullptr) return;
  // What is done is not cut off. Errors are seen again.
  int collected = 0;
  (void)gpu_->in_flight().Collect(&collected);
  CountCompleted(collected);
  gpu_->in_flight().ForEach([](const GpuWork& work) {
    if (work.give_up) work.give_up();
  });
  for (const control::SessionRecord& record : Inventory()) {
    const auto session = FindSession(record.id);
    Spoil(*session, {std::nullopt, 0, session->failed_at() - kAbortsApart});
  }
}

Status Executor::StillWanted(const SessionState& session) const {
  return gpu_ == nullptr || !session.Skips(running_.command)
             ? OkStatus()
             : Aborted("the session's work is given up");
}

void Executor::ForgetGpuWork() {
  if (gpu_ == nullptr) return;
  // They count as completed: else who looks would call this rank busy for ever.
  CountCompleted(gpu_->in_flight().Abandon());
}

void Executor::CountCompleted(int commands) {
  for (int i = 0; i < commands && recorder_ != nullptr; ++i) activity_.Complete();
}

bool Executor::IsGpuBusy() const { return gpu_ != nullptr && !gpu_->in_flight().empty(); }

void Executor::FailOnGpu(const Status& status) {
  InFlight& in_flight = gpu_->in_flight();
  const Status loss = gpu_->gpu().Loss();
  if (in_flight.empty()) {
    if (!loss.ok()) gpu_loss_ = loss;
    return;
  }
  const GpuWork blamed = in_flight.oldest();
  const bool is_late = status.code() == StatusCode::kDeadlineExceeded;
  const Status told =
      is_late || loss.ok() ? status : Annotate(status, "on the GPU, by " + in_flight.Blame());
  const auto session = FindSession(blamed.session);
  if (session != nullptr && session->generation() == blamed.generation) {
    const Running running = running_;
    running_.command = blamed.command;
    running_.function = blamed.what;
    FailSession(*session, told);
    running_ = running;
    // What it does on the GPU is over for all its ranks.
    session->Abort({blamed.generation, blamed.command, session->failure()});
  }
  if (blamed.give_up) blamed.give_up();
  if (!loss.ok()) {
    gpu_loss_ = Annotate(loss, "the GPU is lost to this process");
    ForgetGpuWork();
  }
}

Status Executor::AwaitGpu(const SessionState& session, size_t most) {
  if (gpu_ == nullptr) return OkStatus();
  InFlight& in_flight = gpu_->in_flight();
  Backoff backoff(kPace);
  const absl::Cleanup count = [&] {
    if (recorder_ != nullptr) recorder_->AddGpuWait(Deadline::Clock::now() - backoff.began());
  };
  while (true) {
    LookAtGpu();
    if (!gpu_loss_.ok()) return gpu_loss_;
    const bool all_are_done = !in_flight.HasAnyOf(session.id());
    if (in_flight.size() <= most || (most == 0 && all_are_done)) {
      LOCKSTEP_RETURN_IF_ERROR(StillWanted(session));
      if (all_are_done) in_flight.Confirm(session.id());
      return OkStatus();
    }
    if (session.has_failed()) return Aborted("the session's work is given up");
    AnswerRegisterQueries();
    backoff.Pause();
  }
}

Status Executor::MakeRoomOnGpu(const SessionState& session) {
  if (gpu_ == nullptr || gpu_->in_flight().size() < kMostInFlight) return OkStatus();
  return AwaitGpu(session, kMostInFlight / 2);
}

}  // namespace lockstep::worker
