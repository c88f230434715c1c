#include "services/local/cluster_keys.h"

#include "runtime/control/keys/allow_list.h"
#include "runtime/control/keys/gate.h"
#include "runtime/control/keys/key_file.h"

namespace lockstep::local {
namespace {

StatusOr<control::KeyPair> MakeKey(const std::string& path, const std::string& name) {
  const control::KeyPair pair = control::NewKeyPair();
  LOCKSTEP_RETURN_IF_ERROR(control::WriteKeyFile(path, pair, name));
  return pair;
}

}  // namespace

Status MakeKeysIfNeeded(ClusterOptions& cluster, const std::string& directory) {
  const bool has_keys = !cluster.controller.key.empty();
  return has_keys || !cluster.NeedsKeys() ? OkStatus() : MakeKeys(cluster, directory);
}

Status MakeKeys(ClusterOptions& cluster, const std::string& directory) {
  controller::ControllerOptions& controller = cluster.controller;
  controller.key = directory + "/controller.key";
  controller.allowed_keys = directory + "/allowed_keys";
  cluster.operator_key = directory + "/operator.key";
  const std::string worker_key = directory + "/worker.key";
  LOCKSTEP_ASSIGN_OR_RETURN(const control::KeyPair own,
                            MakeKey(controller.key, cluster.cluster + "-controller"));
  LOCKSTEP_ASSIGN_OR_RETURN(const control::KeyPair worker,
                            MakeKey(worker_key, cluster.cluster + "-workers"));
  LOCKSTEP_ASSIGN_OR_RETURN(const control::KeyPair operators,
                            MakeKey(cluster.operator_key, cluster.cluster + "-operator"));
  const control::Identity allowed[] = {
      {control::Role::kWorker, cluster.cluster + "-workers", worker.public_key},
      {control::Role::kOperator, cluster.cluster + "-operator", operators.public_key}};
  std::string list = "# Who may come in to cluster " + cluster.cluster +
                     ". `lockstep keys allow` adds others; changes count at once.\n";
  for (const control::Identity& identity : allowed) list += identity.Text() + "\n";
  LOCKSTEP_RETURN_IF_ERROR(control::WriteFileWhole(controller.allowed_keys, list, 0600));
  for (worker::WorkerOptions& rank : cluster.ranks) {
    const bool is_here = cluster.HostOf(rank.rank).IsThisHost();
    rank.key = is_here ? worker_key : worker.secret_key.SecretText();
    rank.controller_key = own.public_key.Text();
  }
  return OkStatus();
}

StatusOr<ControllerAddress> OperatorAddress(const ClusterOptions& cluster,
                                            const std::string& endpoint) {
  if (cluster.operator_key.empty() || cluster.controller.key.empty()) {
    return ControllerAddress(endpoint);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const control::KeyPair own,
                            control::ReadOwnKey(cluster.controller.key));
  return ControllerAddress(endpoint, cluster.operator_key, own.public_key.Text());
}

}  // namespace lockstep::local
