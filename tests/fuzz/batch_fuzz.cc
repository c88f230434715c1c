// The body of a batch, as a worker's executor reads it: commands of a client, in a session that has
// all functions and some tensors.
//
// The first byte says what the rest is: 0, a body as it travels; else records, each with a command
// (of the controller itself if the sender is 1).
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "runtime/control/batch.h"
#include "runtime/control/value_codec.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"
#include "tests/fuzz/worker_parts.h"

namespace lockstep::fuzz {
namespace {

// Numbers of the commands behind those that made the registers.
constexpr uint64_t kFirstCommand = 100;

// The one built-in function that may wait for long, and would have to be waited for here.
bool AsksForSleep(const control::Frame& body) {
  constexpr std::string_view kName = "sleep";
  const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
  return text.find(kName) != std::string_view::npos;
}

void Execute(const control::Frame& body, bool of_controller) {
  if (AsksForSleep(body)) return;
  worker::BatchContext batch;
  batch.session = WorkerParts::kSession;
  batch.first_command = of_controller ? 0 : kFirstCommand;
  batch.request = RequestId(1);
  SharedWorker().executor().ExecuteBatch(batch, body);
}

}  // namespace

void ExecuteBatches(const uint8_t* data, size_t size) {
  if (size == 0) return;
  WorkerParts& worker = SharedWorker();
  worker.Enter(worker.AloneWithSession());
  worker.MakeRegisters();
  if (data[0] == 0) {
    Execute(control::Frame::Copy(data + 1, size - 1), /*of_controller=*/false);
  } else {
    for (const Record& record : ReadRecords(data + 1, size - 1, control::Protocol::kNone)) {
      for (const control::Frame& frame : record.message) {
        Execute(frame, /*of_controller=*/record.sender == 1);
      }
    }
  }
  worker.Clear();
}

}  // namespace lockstep::fuzz
