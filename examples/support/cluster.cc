#include "examples/support/cluster.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "examples/support/find_file.h"

namespace lockstep::examples {
namespace {

StatusOr<std::unique_ptr<local::LocalCluster>> StartCluster(const ClusterFlags& flags,
                                                            const std::string& module_path) {
  local::LocalClusterOptions options;
  options.workers = flags.workers;
  options.device = flags.device;
  if (!module_path.empty()) {
    options.module_path = {std::filesystem::path(module_path).parent_path().string()};
  }
  options.mode = flags.processes ? local::LocalClusterOptions::Mode::kProcesses
                                 : local::LocalClusterOptions::Mode::kThreads;
  return local::LocalCluster::Start(options);
}

}  // namespace

std::vector<Flag> WithClusterFlags(ClusterFlags& flags, const std::vector<Flag>& own) {
  std::vector<Flag> all = {
      {"-w,--workers", &flags.workers, "Workers of the cluster that is started", 64},
      {"--processes", &flags.processes, "Workers are processes, not threads"},
      {"--device", &flags.device, "What they work on: cpu, or cuda, one GPU each"},
      {"--connect",
       &flags.connect,
       "Use the cluster whose clients' endpoint this is",
       0,
       {"--workers", "--processes", "--device"}},
      {"--key", &flags.key, "With --connect: a file with this client's secret key"},
      {"--controller-key", &flags.controller_key,
       "With --connect: the controller's public key, or a file with it"},
      {"--module", &flags.module,
       "The example's module as the workers find it (default: beside this program; with "
       "--connect: in the workers' module path)"},
  };
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

StatusOr<Cluster> Cluster::Open(const ClusterFlags& flags, const std::string& module) {
  Cluster cluster;
  if (!flags.connect.empty()) {
    cluster.module_path_ =
        flags.module.empty() ? std::filesystem::path(module).filename().string() : flags.module;
    SessionOptions options;
    options.Reach({flags.connect, flags.key, flags.controller_key});
    LOCKSTEP_ASSIGN_OR_RETURN(cluster.session_, Session::Connect(options));
    return cluster;
  }
  if (flags.module.empty() && !module.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(cluster.module_path_, FindFile(module));
  } else if (!flags.module.empty()) {
    std::error_code error;
    cluster.module_path_ = std::filesystem::canonical(flags.module, error).string();
    if (error) return NotFound("cannot open the module ", flags.module, ": ", error.message());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(cluster.cluster_, StartCluster(flags, cluster.module_path_));
  LOCKSTEP_ASSIGN_OR_RETURN(cluster.session_, cluster.cluster_->Connect());
  return cluster;
}

Status Cluster::Close() {
  LOCKSTEP_RETURN_IF_ERROR(session_->Close());
  return cluster_ == nullptr ? OkStatus() : cluster_->Stop();
}

}  // namespace lockstep::examples
