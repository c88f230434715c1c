// lockstep-controller: the controller service.
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/resources.h"
#include "runtime/control/zmq/zmq_context.h"
#include "services/config/yaml.h"
#include "services/controller/controller.h"
#include "services/controller/settings.h"
#include "services/process/service_main.h"

namespace {

using namespace lockstep;

// Tells the program that started this process where it listens, ports that it chose itself
// included. Renamed into place, so that a reader sees all of it or nothing.
Status WriteEndpoints(const controller::Controller& controller, const std::string& path) {
  const std::string draft = path + ".new";
  std::ofstream file(draft, std::ios::trunc);
  file << "client_endpoint: " << config::YamlScalar(controller.client_endpoint()) << '\n'
       << "worker_endpoint: " << config::YamlScalar(controller.worker_endpoint()) << '\n'
       << "liveness_endpoint: " << config::YamlScalar(controller.liveness_endpoint()) << '\n';
  if (!controller.metrics_endpoint().empty()) {
    file << "metrics_endpoint: " << config::YamlScalar(controller.metrics_endpoint()) << '\n';
  }
  file.close();
  if (!file || std::rename(draft.c_str(), path.c_str()) != 0) {
    return FailedPrecondition("cannot write the endpoints to ", path);
  }
  return OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  std::string endpoints_file;
  const process::ServiceProgram program{
      "lockstep-controller",
      "The controller of a Lockstep cluster: admits workers, opens sessions, orders all commands.",
      "  lockstep-controller --config controller.yaml\n"
      "  lockstep-controller --config controller.yaml --set workers=8 --set cluster=demo\n",
      controller::DescribeSettings(),
      {{"--write-endpoints", "FILE", "Writes the endpoints to FILE once it listens",
        &endpoints_file}}};
  process::ServiceFlags flags;
  if (const auto exit_code = process::ParseCommandLine(program, argc, argv, &flags)) {
    return *exit_code;
  }
  const auto options = controller::LoadOptions(flags.sources);
  if (!options.ok()) return process::Fail(options.status(), process::kWrongUsage);
  if (const auto asked = process::AskTheOneThatRuns(flags, options->metrics_endpoint)) {
    return *asked;
  }

  log::Configure(options->log_level, options->log_format);

  RaiseDescriptorLimit();
  auto stop = process::WatchForStop(flags);
  if (!stop.ok()) return process::Fail(stop.status(), process::kFailed);
  const auto controller = controller::Controller::Start(*options, control::ZmqContext::Create());
  if (!controller.ok()) return process::FailToStart(controller.status(), **stop);
  if (!endpoints_file.empty()) {
    const Status written = WriteEndpoints(**controller, endpoints_file);
    if (!written.ok()) return process::Fail(written, process::kFailed);
  }
  return process::RunUntilStopped(**controller, *std::move(stop));
}
