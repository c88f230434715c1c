#include "services/local/local_workers.h"
#include "services/worker/worker.h"

namespace lockstep::local {
namespace {

class WorkerThreads : public LocalWorkers {
 public:
  Status Start(const std::vector<worker::WorkerOptions>& ranks,
               const std::shared_ptr<control::ZmqContext>& context) {
    for (const worker::WorkerOptions& options : ranks) {
      LOCKSTEP_ASSIGN_OR_RETURN(auto worker, worker::Worker::Start(options, context));
      workers_.push_back(std::move(worker));
    }
    reported_.resize(workers_.size());
    return OkStatus();
  }

  Status CheckRunning() override {
    for (size_t rank = 0; rank < workers_.size(); ++rank) {
      const Status status = workers_[rank]->Wait(Deadline::After(std::chrono::seconds(0)));
      if (status.code() == StatusCode::kDeadlineExceeded) continue;
      reported_[rank] = true;
      return Unavailable("worker ", rank, " has ended",
                         status.ok() ? std::string() : ": " + Message(status));
    }
    return OkStatus();
  }

  Status Stop(Deadline patience) override {
    Status first;
    for (size_t rank = 0; rank < workers_.size(); ++rank) {
      Status status = workers_[rank]->Wait(patience);
      if (status.code() == StatusCode::kDeadlineExceeded) {
        workers_[rank]->RequestStop("the cluster stops");
      }
      if (!reported_[rank] && first.ok() && !status.ok()) {
        first = Annotate(status, "worker " + std::to_string(rank));
      }
    }
    // Threads cannot be killed: this waits for the command that a worker is in.
    workers_.clear();
    return first;
  }

  const std::vector<pid_t>& pids() const override { return no_pids_; }

 private:
  std::vector<std::unique_ptr<worker::Worker>> workers_;
  std::vector<bool> reported_;
  const std::vector<pid_t> no_pids_{};
};

}  // namespace

StatusOr<std::unique_ptr<LocalWorkers>> StartWorkerThreads(
    const std::vector<worker::WorkerOptions>& ranks,
    const std::shared_ptr<control::ZmqContext>& context) {
  auto workers = std::make_unique<WorkerThreads>();
  LOCKSTEP_RETURN_IF_ERROR(workers->Start(ranks, context));
  return workers;
}

}  // namespace lockstep::local
