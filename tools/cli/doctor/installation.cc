#include "tools/cli/doctor/installation.h"

#include <chrono>
#include <fstream>

#include "runtime/base/version.h"
#include "runtime/control/keys/allow_list.h"
#include "runtime/control/keys/gate.h"
#include "runtime/control/keys/key_file.h"
#include "services/local/child_process.h"
#include "services/local/temporary_directory.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::seconds kPatience{10};

// What `program --version` prints.
StatusOr<std::string> VersionOf(const std::string& program) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto directory, local::TemporaryDirectory::Create());
  local::ChildOptions options;
  options.argv = {program, "--version"};
  options.log_path = directory->path() + "/version";
  LOCKSTEP_ASSIGN_OR_RETURN(local::ChildProcess child, local::ChildProcess::Spawn(options));
  LOCKSTEP_ASSIGN_OR_RETURN(const ExitStatus status, child.WaitOrKill(Deadline::After(kPatience)));
  if (!status.ok()) return Unavailable(program, " --version ", status.Describe());
  std::string line;
  std::ifstream file(options.log_path);
  std::getline(file, line);
  return line;
}

Finding Of(const std::string& subject, const Status& problem) {
  return {subject, Verdict::kBad, Message(problem), "see docs/security.md"};
}

}  // namespace

Finding CheckProgram(const std::string& name, const std::string& variable,
                     const std::string& folder) {
  const StatusOr<std::string> path = local::FindProgram(name, variable, folder);
  if (!path.ok()) {
    return {name, Verdict::kBad, Message(path.status()), "install it beside lockstep"};
  }
  const StatusOr<std::string> version = VersionOf(*path);
  if (!version.ok()) {
    return {name, Verdict::kBad, Message(version.status()), "install it again"};
  }
  const std::string expected = name + " " + kBuildVersion;
  if (*version != expected) {
    return {name, Verdict::kBad,
            *path + " is \"" + *version + "\", this is lockstep " + kBuildVersion,
            "install all programs of one version"};
  }
  return {name, Verdict::kGood, *path + ", " + kBuildVersion, ""};
}

Finding CheckKeyFile(const std::string& whose, const std::string& path) {
  const StatusOr<control::KeyPair> key = control::ReadOwnKey(path);
  if (!key.ok()) return Of(whose + " key", key.status());
  return {whose + " key", Verdict::kGood, path + " is " + key->public_key.Text(), ""};
}

Finding CheckPublicKeys(const std::string& whose, const std::string& path_or_key) {
  const StatusOr<std::vector<control::PublicKey>> keys = control::ReadPublicKeys(path_or_key);
  if (!keys.ok()) return Of(whose + " public key", keys.status());
  return {whose + " public key", Verdict::kGood, keys->front().Text(), ""};
}

std::vector<Finding> CheckKeys(const config::ClusterOptions& cluster) {
  std::vector<Finding> findings;
  const controller::ControllerOptions& controller = cluster.controller;
  if (controller.key.empty()) {
    const bool makes_keys = config::NeedsKeys(controller) || cluster.HasOtherHosts();
    return {{"keys", Verdict::kGood,
             makes_keys ? "`up` makes them" : "none: only this host reaches the cluster", ""}};
  }
  findings.push_back(CheckKeyFile("controller's", controller.key));
  const StatusOr<std::string> text = control::ReadTrustedFile(controller.allowed_keys);
  Status list = text.status();
  if (text.ok()) list = control::AllowList::Parse(*text, controller.allowed_keys).status();
  findings.push_back(list.ok()
                         ? Finding{"allowed keys", Verdict::kGood, controller.allowed_keys, ""}
                         : Of("allowed keys", list));
  if (!cluster.operator_key.empty()) {
    findings.push_back(CheckKeyFile("operator's", cluster.operator_key));
  }
  for (const worker::WorkerOptions& worker : cluster.ranks) {
    // Those of other hosts are there.
    if (worker.key.empty() || !cluster.HostOf(worker.rank).IsThisHost()) continue;
    findings.push_back(CheckKeyFile("worker's", worker.key));
    findings.push_back(CheckPublicKeys("controller's", worker.controller_key));
    break;  // of the others there is as much to say
  }
  return findings;
}

}  // namespace lockstep::cli
