// What a controller takes from workers on their command socket: records, whose `sender` is the
// worker. No worker has joined yet; a client waits for a session.
#include <cstdint>
#include <utility>

#include "tests/fuzz/controller_run.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {

void TakeWorkerMessages(const uint8_t* data, size_t size) {
  ControllerRun run;
  run.OpenSession(0);
  for (Record& record : ReadRecords(data, size, control::Protocol::kWorkerToController)) {
    run.FromWorker(record.sender % 4, std::move(record.message));
  }
  run.Run();
}

}  // namespace lockstep::fuzz
