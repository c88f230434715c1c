// What a worker takes from its controller on its command socket: records, each a message. Welcomes
// are taken in as the worker does it (there are no peers to connect with), batches
// executed in whatever sessions the welcomes have opened.
#include <chrono>
#include <cstdint>
#include <utility>
#include <variant>

#include "runtime/base/deadline.h"
#include "services/worker/join/envelope.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"
#include "tests/fuzz/worker_parts.h"

namespace lockstep::fuzz {
namespace {

void Take(const control::Message& message) {
  auto envelope = worker::ReadEnvelope(message);
  if (!envelope.ok()) return;
  if (auto* membership = std::get_if<worker::Membership>(&envelope->content)) {
    // What the worker makes of its times.
    (void)Deadline::After(membership->collective_timeout).Remaining();
    (void)Deadline::After(membership->heartbeat_interval).Remaining();
    SharedWorker().Enter(std::move(*membership));
  } else if (const auto* batch = std::get_if<worker::BatchContext>(&envelope->content)) {
    SharedWorker().executor().ExecuteBatch(*batch, message[1]);
  }
}

}  // namespace

void TakeEnvelopes(const uint8_t* data, size_t size) {
  WorkerParts& worker = SharedWorker();
  worker.Enter(worker.AloneWithSession());
  for (const Record& record : ReadRecords(data, size, control::Protocol::kControllerToWorker))
    Take(record.message);
  worker.Clear();
}

}  // namespace lockstep::fuzz
