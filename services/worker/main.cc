// lockstep-worker: the worker service.
#include <cstdio>
#include <cstdlib>

#include "runtime/base/log.h"
#include "runtime/base/resources.h"
#include "runtime/control/zmq/zmq_context.h"
#include "services/process/service_main.h"
#include "services/worker/output/output_forwarder.h"
#include "services/worker/settings.h"
#include "services/worker/worker.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  const process::ServiceProgram program{
      "lockstep-worker",
      "A worker of a Lockstep cluster: executes commands on its own part of the data.",
      "  lockstep-worker --config worker.yaml\n"
      "  lockstep-worker --set controller_endpoint=tcp://127.0.0.1:7401 --set rank=2\n",
      worker::DescribeSettings()};
  process::ServiceFlags flags;
  if (const auto exit_code = process::ParseCommandLine(program, argc, argv, &flags)) {
    return *exit_code;
  }
  const auto options = worker::LoadOptions(flags.sources);
  if (!options.ok()) return process::Fail(options.status(), process::kWrongUsage);
  if (const auto asked = process::AskTheOneThatRuns(flags, options->metrics_endpoint)) {
    return *asked;
  }

  log::Configure(options->log_level, options->log_format);

  RaiseDescriptorLimit();
  auto stop = process::WatchForStop(flags);
  if (!stop.ok()) return process::Fail(stop.status(), process::kFailed);
  // What a function prints is seen line by line, also where it is not forwarded.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  auto forwarder = worker::OutputForwarder::Create();
  if (!forwarder.ok()) return process::Fail(forwarder.status(), process::kFailed);
  int exit_code = process::kStopped;
  bool ends = false;
  do {
    const auto worker =
        worker::Worker::Start(*options, control::ZmqContext::Create(), forwarder->get(),
                              [&stop] { return (*stop)->Came(); });
    if (!worker.ok()) {
      exit_code = process::FailToStart(worker.status(), **stop);
      break;
    }
    exit_code = process::AwaitEnd(**worker, **stop);
    ends = exit_code != process::kStopped || (*stop)->Came() || options->after_shutdown == "exit" ||
           worker::Worker::LeftThreadsBehind();
    if (ends) {
      stop->reset();  // what is left to do is not timed any more
    } else {
      log::Info("looking for another controller");
    }
  } while (!ends);
  forwarder->reset();
  if (worker::Worker::LeftThreadsBehind()) {
    // A GPU that is stuck keeps them waiting, in what the end of a process would take down.
    std::fflush(nullptr);
    std::_Exit(exit_code);
  }
  return exit_code;
}
