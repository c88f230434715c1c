// What a controller takes from clients: records, whose `who` is the client. Two workers are ready,
// and client 0 has a session.
#include <cstdint>
#include <utility>

#include "tests/fuzz/controller_run.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::fuzz::ControllerRun run;
  run.JoinWorkers();
  run.OpenSession(0);
  for (lockstep::fuzz::Record& record : lockstep::fuzz::ReadRecords(data, size)) {
    run.FromClient(record.who % 4, std::move(record.message));
  }
  run.Run();
  return 0;
}
