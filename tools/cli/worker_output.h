// What functions print on the workers: shown by `call` and `run`, or left to the workers' logs.
#pragma once

#include "runtime/client/worker_output.h"
#include "tools/cli/command_line.h"
#include "tools/cli/common_options.h"

namespace lockstep::cli {

enum class WorkerOutputChoice { kForward, kLog };

// --worker-output forward|log.
void AddWorkerOutputOption(Command command, WorkerOutputChoice& choice);

// For SessionOptions::on_output. Where standard output is a JSON document, all goes to standard
// error.
OutputCallback WorkerOutputPrinter(WorkerOutputChoice choice, OutputFormat format);

}  // namespace lockstep::cli
