#include "services/worker/report/worker_metrics.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "runtime/base/version.h"

namespace lockstep::worker {
namespace {

using std::chrono::milliseconds;

// A thread that is only kept waiting by a busy machine is not ill.
constexpr milliseconds kLeastPatience{10'000};

double Seconds(Deadline::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}
double Number(const std::atomic<int64_t>& number) {
  return static_cast<double>(number.load(std::memory_order_relaxed));
}

}  // namespace

void WorkerMetrics::UseGpu(GpuMetrics gpu) {
  std::lock_guard lock(mutex_);
  gpu_ = std::move(gpu);
}

void WorkerMetrics::NoteJoined() {
  std::lock_guard lock(mutex_);
  ++joined_;
}

void WorkerMetrics::Enter(Rank rank, Epoch epoch) {
  std::lock_guard lock(mutex_);
  rank_ = rank;
  epoch_ = epoch;
  ready_ = StatusCode::kUnavailable;
  ready_text_ = "the worker connects with the other ranks";
}

void WorkerMetrics::SetReady(const Status& ready) {
  std::lock_guard lock(mutex_);
  ready_ = ready.code();
  ready_text_ = Message(ready);
}

void WorkerMetrics::NoteEnd(const Status& why) {
  std::lock_guard lock(mutex_);
  end_ = ready_ = StatusCode::kUnavailable;
  end_text_ = ready_text_ = "the worker has ended" + (why.ok() ? "" : ": " + Message(why));
}

Status WorkerMetrics::Started() const {
  std::lock_guard lock(mutex_);
  return joined_ > 0 ? OkStatus() : Unavailable("the worker has not joined a cluster yet");
}

Status WorkerMetrics::Healthy() const {
  {
    std::lock_guard lock(mutex_);
    if (end_ != StatusCode::kOk) return Status(end_, end_text_);
  }
  const auto silence = liveness_health_.SinceRound();
  if (silence < std::max(kLeastPatience, 3 * liveness_health_.interval())) return OkStatus();
  return Unavailable("the worker's liveness thread has not come round for ",
                     std::chrono::duration_cast<milliseconds>(silence).count(), " ms");
}

Status WorkerMetrics::Ready() const {
  std::lock_guard lock(mutex_);
  return Status(ready_, ready_text_);
}

void WorkerMetrics::TellRegisters(metrics::Families& families) const {
  const registers::RegisterTotals& registers = recorder_.registers();
  families.Gauge("lockstep_registers", "Registers that have a value, over all sessions.",
                 Number(registers.live_registers));
  families.Gauge("lockstep_registers_peak", "The most registers that had a value at a time.",
                 Number(registers.peak_registers));
  families.Gauge("lockstep_register_bytes",
                 "Bytes of the tensors in registers; those that share memory count twice.",
                 Number(registers.tensor_bytes));
  families.Gauge("lockstep_register_peak_bytes", "The most bytes that these tensors ever had.",
                 Number(registers.peak_tensor_bytes));
  const tensor::AllocatorStats stats = arena_.Stats();
  families.Gauge("lockstep_arena_live_bytes", "Bytes of the arena that tensors have.",
                 static_cast<double>(stats.live_bytes));
  families.Gauge("lockstep_arena_peak_bytes", "The most bytes of the arena that tensors ever had.",
                 static_cast<double>(stats.peak_bytes));
  families.Gauge("lockstep_arena_reserved_bytes",
                 "Memory that the arena has taken, used or not, communicators' included.",
                 static_cast<double>(stats.reserved_bytes));
  families.Gauge("lockstep_arena_capacity_bytes",
                 "Most memory that the arena may take (arena_bytes).",
                 static_cast<double>(arena_.capacity_bytes()));
  families.Gauge("lockstep_arena_blocks", "Pieces of the arena that are in use.",
                 static_cast<double>(stats.live_blocks));
  families.Counter("lockstep_arena_allocations_total", "Pieces of the arena that were handed out.",
                   static_cast<double>(stats.allocations));
}

void WorkerMetrics::TellProgress(metrics::Families& families) const {
  const WorkerActivity activity = activity_.Now();
  families.Counter("lockstep_received_batches_total",
                   "Place in the controller's order of the last batch that was taken.",
                   static_cast<double>(activity.received));
  families.Counter("lockstep_launched_commands_total", "Commands begun.",
                   static_cast<double>(activity.launched));
  families.Counter("lockstep_completed_commands_total", "Commands finished, failed or skipped.",
                   static_cast<double>(activity.completed));
}

std::string WorkerMetrics::Text() const {
  metrics::Families families;
  families.Gauge("lockstep_build_info", "1; the labels say which build this is.", 1,
                 {{"version", kBuildVersion}});
  {
    std::lock_guard lock(mutex_);
    families.Gauge("lockstep_epoch", "The world's epoch: it grows with every world.",
                   static_cast<double>(epoch_.value));
    families.Gauge("lockstep_worker_rank", "The worker's rank; -1 before it has one.", rank_);
    families.Gauge("lockstep_worker_ready", "1 if the worker is connected with all ranks, else 0.",
                   ready_ == StatusCode::kOk ? 1 : 0);
    families.Counter("lockstep_reconnects_total",
                     "Times that the worker has found a controller again.",
                     static_cast<double>(joined_ - std::min<uint64_t>(joined_, 1)));
  }
  families.Gauge("lockstep_controller_heartbeat_age_seconds",
                 "Time since the controller was heard; 0 if it never was.",
                 Seconds(liveness_health_.SinceControllerHeard()));
  families.Counter("lockstep_worker_aborts_total",
                   "Aborts of sessions that the worker was told of.",
                   static_cast<double>(aborts_.value()));
  TellRegisters(families);
  TellProgress(families);
  recorder_.Tell(families);
  std::vector<NamedTransfer> transfers = recorder_.collectives().List();
  transfers.push_back({"copy_to_worker", "socket", &bulk_.written()});
  transfers.push_back({"copy_from_worker", "socket", &bulk_.read()});
  TellTransfers(transfers, families);
  std::lock_guard lock(mutex_);
  if (gpu_.has_value()) gpu_->Tell(recorder_.GpuWait(), families);
  return families.Text();
}

}  // namespace lockstep::worker
