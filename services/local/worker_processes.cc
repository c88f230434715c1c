#include <utility>

#include "services/config/service_config.h"
#include "services/local/local_workers.h"
#include "services/local/service_process.h"

namespace lockstep::local {
namespace {

// How long SIGTERM may take to work before SIGKILL.
constexpr std::chrono::seconds kTermPatience{1};

class WorkerProcesses : public LocalWorkers {
 public:
  ~WorkerProcesses() override { (void)Stop(Deadline::After(std::chrono::seconds(0))); }

  Status Start(const std::vector<worker::WorkerOptions>& ranks, const std::string& program,
               const std::string& directory) {
    for (const worker::WorkerOptions& options : ranks) {
      LOCKSTEP_ASSIGN_OR_RETURN(
          ServiceProcess process,
          ServiceProcess::Start({.role = "worker-" + std::to_string(options.rank),
                                 .program = program,
                                 .directory = directory,
                                 .settings = config::ToYaml(options),
                                 .arguments = {},
                                 .detached = false}));
      pids_.push_back(process.pid());
      processes_.push_back(std::move(process));
    }
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
  std::vector<ServiceProcess> processes_;
  std::vector<pid_t> pids_;
};

}  // namespace

StatusOr<std::unique_ptr<LocalWorkers>> StartWorkerProcesses(
    const std::vector<worker::WorkerOptions>& ranks, const std::string& program,
    const std::string& directory) {
  auto workers = std::make_unique<WorkerProcesses>();
  LOCKSTEP_RETURN_IF_ERROR(workers->Start(ranks, program, directory));
  return workers;
}

}  // namespace lockstep::local
