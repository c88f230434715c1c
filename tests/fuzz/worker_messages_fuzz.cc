// What a controller takes from workers on their command socket: records, whose `who` is the worker.
// Nobody has joined yet; a client waits for a session.
#include <cstdint>
#include <utility>

#include "tests/fuzz/controller_run.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::fuzz::ControllerRun run;
  run.OpenSession(0);
  for (lockstep::fuzz::Record& record : lockstep::fuzz::ReadRecords(data, size)) {
    run.FromWorker(record.who % 4, std::move(record.message));
  }
  run.Run();
  return 0;
}
