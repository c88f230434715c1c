#include "services/local/start_again.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "runtime/base/child_process.h"
#include "services/config/problems.h"
#include "services/config/yaml.h"

namespace lockstep::local {
namespace {

constexpr char kController[] = "controller";

StatusOr<std::string> ReadSettings(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return NotFound("its configuration ", path, " cannot be read");
  return text.str();
}

// The ports that the last controller had chosen, as it wrote them down: its workers and clients
// look for it there.
StatusOr<std::vector<std::string>> EndpointArguments(const std::string& path) {
  std::vector<std::string> arguments;
  if (access(path.c_str(), R_OK) == 0) {
    config::Problems problems;
    for (const config::Entry& entry : config::ReadYamlFile(path, problems)) {
      arguments.push_back("--set");
      arguments.push_back(entry.key + "=" + entry.value.Text());
    }
    LOCKSTEP_RETURN_IF_ERROR(problems.ToStatus());
  }
  arguments.push_back("--write-endpoints");
  arguments.push_back(path);
  return arguments;
}

}  // namespace

StatusOr<ServiceProcess> StartAgain(const std::string& directory, const std::string& role) {
  if (role.find(' ') != std::string::npos) {
    return Unimplemented(role, " has ended, and can be started again by a new cluster only");
  }
  const bool is_controller = role == kController;
  ServiceProcessOptions options;
  options.role = role;
  options.directory = directory;
  options.detached = true;
  LOCKSTEP_ASSIGN_OR_RETURN(options.settings, ReadSettings(directory + "/" + role + ".yaml"));
  LOCKSTEP_ASSIGN_OR_RETURN(
      options.program,
      is_controller
          ? FindProgram("lockstep-controller", "LOCKSTEP_CONTROLLER", "services/controller")
          : FindProgram("lockstep-worker", "LOCKSTEP_WORKER", "services/worker"));
  if (is_controller) {
    LOCKSTEP_ASSIGN_OR_RETURN(options.arguments, EndpointArguments(directory + "/endpoints.yaml"));
  }
  return ServiceProcess::Start(options);
}

}  // namespace lockstep::local
