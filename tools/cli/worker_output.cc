#include "tools/cli/worker_output.h"

#include <cstdio>
#include <string>

#include "tools/cli/progress.h"

namespace lockstep::cli {

void AddWorkerOutputOption(Command command, WorkerOutputChoice& choice) {
  command
      .Add(
          "--worker-output",
          [&choice](const std::string& name) {
            choice = name == "log" ? WorkerOutputChoice::kLog : WorkerOutputChoice::kForward;
          },
          "forward: show what functions print, with the rank in front (default);\n"
          "log: leave it to the workers' logs")
      .OneOf({"forward", "log"})
      .Placeholder("WHERE");
}

OutputCallback WorkerOutputPrinter(WorkerOutputChoice choice, OutputFormat format) {
  if (choice == WorkerOutputChoice::kLog) return nullptr;
  OutputCallback print = PrintOutput(format == OutputFormat::kJson ? stderr : stdout, stderr);
  if (!CanShowProgress()) return print;
  return [print = std::move(print)](const WorkerOutput& output) {
    // Whatever moves there is drawn again.
    std::fputs("\r\033[K", stderr);
    print(output);
  };
}

}  // namespace lockstep::cli
