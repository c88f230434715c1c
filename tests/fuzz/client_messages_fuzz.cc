// What a controller takes from clients: records, whose `sender` is the client. Two workers are
// ready, and client 0 has a session.
#include <cstdint>
#include <utility>

#include "tests/fuzz/controller_run.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {

void TakeClientMessages(const uint8_t* data, size_t size) {
  ControllerRun run;
  run.JoinWorkers();
  run.OpenSession(0);
  for (Record& record : ReadRecords(data, size, control::Protocol::kClientToController)) {
    run.FromClient(record.sender % 4, std::move(record.message));
  }
  run.Run();
}

}  // namespace lockstep::fuzz
