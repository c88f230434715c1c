// What a worker tells a monitoring system: what it has counted, its health, and whether it is
// ready.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/activity_page.h"
#include "runtime/tensor/arena.h"
#include "services/metrics/counters.h"
#include "services/worker/bulk/bulk_server.h"
#include "services/worker/gpu/gpu_metrics.h"
#include "services/worker/report/liveness_health.h"
#include "services/worker/report/recorder.h"

namespace lockstep::worker {

// Threads: safe, but for the recorder (see there).
class WorkerMetrics {
 public:
  // All are borrowed.
  WorkerMetrics(const tensor::Arena& arena, const control::ActivityPage& activity,
                const BulkServer& bulk)
      : arena_(arena), activity_(activity), bulk_(bulk) {}

  Recorder& recorder() { return recorder_; }
  LivenessHealth& liveness_health() { return liveness_health_; }

  // From now on it tells of this GPU.
  void UseGpu(GpuMetrics gpu);
  // It has found a controller; again, after one was lost.
  void NoteJoined();
  // An abort of a session, or of all, has come.
  void NoteAbort() { aborts_.AddShared(); }
  // Its place in the world of `epoch`, in which it now connects.
  void Enter(Rank rank, Epoch epoch);
  // OK: it is connected with all ranks; else why it is not.
  void SetReady(const Status& ready);
  // It has ended, and why.
  void NoteEnd(const Status& why);

  // In Prometheus' text format.
  std::string Text() const;
  // OK once a controller has given it a rank, whatever came then.
  Status Started() const;
  // kUnavailable if the worker has ended, or its liveness thread does not come round any more. What
  // the executing thread does is the program's business: a long kernel is no illness.
  Status Healthy() const;
  // OK in a world whose ranks are connected.
  Status Ready() const;

 private:
  void TellRegisters(metrics::Families& families) const;
  void TellProgress(metrics::Families& families) const;

  const tensor::Arena& arena_;
  const control::ActivityPage& activity_;
  const BulkServer& bulk_;
  Recorder recorder_;
  LivenessHealth liveness_health_;
  metrics::Counter aborts_;

  mutable std::mutex mutex_;  // guards what follows
  // Codes and texts: the copies of a Status share what they are counted with.
  StatusCode ready_ = StatusCode::kUnavailable;
  std::string ready_text_ = "the worker has not joined a cluster yet";
  StatusCode end_ = StatusCode::kOk;
  std::string end_text_;
  Rank rank_ = -1;
  Epoch epoch_;
  std::optional<GpuMetrics> gpu_;
  uint64_t joined_ = 0;
};

}  // namespace lockstep::worker
