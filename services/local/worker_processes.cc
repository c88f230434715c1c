#include <utility>

#include "services/config/service_config.h"
#include "services/local/local_workers.h"
#include "services/local/service_process.h"

namespace lockstep::local {
namespace {

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
                                  .settings = config::ToYaml(options),
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

StatusOr<std::unique_ptr<LocalWorkers>> StartWorkerProcesses(
    const std::vector<worker::WorkerOptions>& ranks, const std::string& program,
    const std::string& directory) {
  auto workers = std::make_unique<WorkerProcesses>(ranks, program, directory);
  LOCKSTEP_RETURN_IF_ERROR(workers->Start());
  return workers;
}

}  // namespace lockstep::local
