#include "services/local/local_workers.h"

#include <utility>

#include "services/local/service_process.h"
#include "services/worker/settings.h"
#include "services/worker/worker.h"

namespace lockstep::local {
namespace {

class WorkerThreads : public LocalWorkers {
 public:
  WorkerThreads(std::vector<worker::WorkerOptions> ranks,
                std::shared_ptr<control::ZmqContext> context)
      : ranks_(std::move(ranks)), context_(std::move(context)) {}

  Status Start() {
    for (const worker::WorkerOptions& options : ranks_) {
      LOCKSTEP_ASSIGN_OR_RETURN(auto worker, worker::Worker::Start(options, context_));
      workers_.push_back(std::move(worker));
    }
    reported_.resize(workers_.size());
    return OkStatus();
  }

  Status Replace(Rank rank) override {
    auto& worker = workers_[static_cast<size_t>(rank)];
    worker.reset();  // waits for the command that it is in; its bulk endpoint is free then
    LOCKSTEP_ASSIGN_OR_RETURN(worker,
                              worker::Worker::Start(ranks_[static_cast<size_t>(rank)], context_));
    reported_[static_cast<size_t>(rank)] = false;
    return OkStatus();
  }

  Status CheckRunning() override {
    for (size_t rank = 0; rank < workers_.size(); ++rank) {
      if (workers_[rank] == nullptr) return Unavailable("worker ", rank, " was not replaced");
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
      if (workers_[rank] == nullptr) continue;
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
  const std::vector<worker::WorkerOptions> ranks_;
  const std::shared_ptr<control::ZmqContext> context_;
  std::vector<std::unique_ptr<worker::Worker>> workers_;
  std::vector<bool> reported_;
  const std::vector<pid_t> no_pids_{};
};

// How long SIGTERM may take to work before SIGKILL.
constexpr std::chrono::seconds kTermPatience{3};

class WorkerProcesses : public LocalWorkers {
 public:
  ~WorkerProcesses() override { (void)Stop(Deadline::After(std::chrono::seconds(0))); }

  WorkerProcesses(std::vector<worker::WorkerOptions> ranks, std::string program,
                  std::string directory)
      : ranks_(std::move(ranks)), program_(std::move(program)), directory_(std::move(directory)) {}

  Status Start() {
    for (const worker::WorkerOptions& options : ranks_) {
      LOCKSTEP_ASSIGN_OR_RETURN(ServiceProcess process, StartOne(options));
      pids_.push_back(process.pid());
      processes_.push_back(std::move(process));
    }
    return OkStatus();
  }

  Status Replace(Rank rank) override {
    ServiceProcess& process = processes_[static_cast<size_t>(rank)];
    (void)process.WaitOrKill(Deadline::After(std::chrono::seconds(0)));
    LOCKSTEP_ASSIGN_OR_RETURN(process, StartOne(ranks_[static_cast<size_t>(rank)]));
    pids_[static_cast<size_t>(rank)] = process.pid();
    return OkStatus();
  }

  Status CheckRunning() override {
    for (ServiceProcess& process : processes_) LOCKSTEP_RETURN_IF_ERROR(process.CheckRunning());
    return OkStatus();
  }

  Status Stop(Deadline patience) override {
    WaitForAll(processes_, patience);
    const Status status = TerminateAll(processes_, Deadline::After(kTermPatience));
    processes_.clear();
    return status;
  }

  const std::vector<pid_t>& pids() const override { return pids_; }

 private:
  StatusOr<ServiceProcess> StartOne(const worker::WorkerOptions& options) {
    return ServiceProcess::Start({.role = "worker-" + std::to_string(options.rank),
                                  .program = program_,
                                  .directory = directory_,
                                  .settings = worker::ToYaml(options),
                                  .arguments = {},
                                  .detached = false});
  }

  const std::vector<worker::WorkerOptions> ranks_;
  const std::string program_;
  const std::string directory_;
  std::vector<ServiceProcess> processes_;
  std::vector<pid_t> pids_;
};

}  // namespace

StatusOr<std::unique_ptr<LocalWorkers>> StartWorkerThreads(
    const std::vector<worker::WorkerOptions>& ranks,
    const std::shared_ptr<control::ZmqContext>& context) {
  auto workers = std::make_unique<WorkerThreads>(ranks, context);
  LOCKSTEP_RETURN_IF_ERROR(workers->Start());
  return workers;
}

StatusOr<std::unique_ptr<LocalWorkers>> StartWorkerProcesses(
    const std::vector<worker::WorkerOptions>& ranks, const std::string& program,
    const std::string& directory) {
  auto workers = std::make_unique<WorkerProcesses>(ranks, program, directory);
  LOCKSTEP_RETURN_IF_ERROR(workers->Start());
  return workers;
}

}  // namespace lockstep::local
