// lockstep-remote-worker: stands for a worker on another host.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "services/process/service_main.h"
#include "services/remote/remote_worker.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  remote::RemoteWorkerOptions options;
  // Behind "--" is the command, which is passed on as it is.
  char** const end = argv + argc;
  char** const dashes = std::find(argv, end, std::string("--"));
  if (dashes != end) options.command.assign(dashes + 1, end);

  const process::ServiceProgram program{
      "lockstep-remote-worker",
      "Stands for a worker on another host: `lockstep up` starts one for each. Behind -- is the\n"
      "command that runs the worker there; its standard input is FILE, and ends when this process\n"
      "does.",
      "  lockstep-remote-worker --host node1 --config worker.yaml -- \\\n"
      "      ssh node1 'exec lockstep-worker --config - --die-with-input'\n",
      {},
      {{"--host", "NAME", "What the host is called in messages", &options.host},
       {"--login-slot", "FILE", "Waits for this file's lock, and holds it while it logs in",
        &options.login_slot}}};
  process::ServiceFlags flags;
  if (const auto exit_code =
          process::ParseCommandLine(program, static_cast<int>(dashes - argv), argv, &flags)) {
    return *exit_code;
  }
  options.config_path = flags.sources.file;
  if (options.command.empty() || options.config_path.empty() ||
      !flags.sources.assignments.empty()) {
    return process::Fail(
        InvalidArgument("expected --config FILE, no --set, and a command behind --"),
        process::kWrongUsage);
  }
  auto stop = process::WatchForStop(flags);
  if (!stop.ok()) return process::Fail(stop.status(), process::kFailed);
  const auto worker = remote::RemoteWorker::Start(options);
  if (!worker.ok()) return process::FailToStart(worker.status(), **stop);
  return process::RunUntilStopped(**worker, *std::move(stop));
}
