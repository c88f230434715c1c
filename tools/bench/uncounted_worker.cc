// A worker that counts nothing, neither metrics nor progress: what counting costs is measured
// against it. Takes what lockstep-worker takes.
#include <utility>

#include "runtime/control/zmq/zmq_context.h"
#include "services/process/service_main.h"
#include "services/worker/settings.h"
#include "services/worker/worker.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  const process::ServiceProgram program{"uncounted_worker",
                                        "A worker that counts nothing, to be measured against.", "",
                                        worker::DescribeSettings()};
  process::ServiceFlags flags;
  if (const auto exit_code = process::ParseCommandLine(program, argc, argv, &flags)) {
    return *exit_code;
  }
  auto options = worker::LoadOptions(flags.sources);
  if (!options.ok()) return process::Fail(options.status(), process::kWrongUsage);
  options->counts = false;

  auto stop = process::WatchForStop(flags);
  if (!stop.ok()) return process::Fail(stop.status(), process::kFailed);
  const auto worker = worker::Worker::Start(*options, control::ZmqContext::Create());
  if (!worker.ok()) return process::FailToStart(worker.status(), **stop);
  return process::RunUntilStopped(**worker, *std::move(stop));
}
