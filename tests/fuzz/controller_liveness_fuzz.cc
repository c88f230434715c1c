// What a controller takes on its liveness socket: records, whose `sender` is the peer. Two workers
// are watched: ranks 0 and 1, under the numbers 1 and 2, by the controller of epoch 7.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/client/admin.h"
#include "runtime/control/message_codec.h"
#include "schemas/session.capnp.h"
#include "services/controller/world/liveness_monitor.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/scripted_channel.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {
namespace {

using namespace std::chrono_literals;

// On its way to the client that asked, as the controller sends it on.
void PassOn(const controller::WorkerReport& report) {
  const control::Frame frame = control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
    auto workers = message.initClusterStatus().initWorkers(1);
    (void)control::DecodeMessage<wire::LivenessMessage>(report.frame, [&](auto reader) {
      workers[0].setReport(reader.getReport());
      return OkStatus();
    });
  });
  (void)client::ReadClusterStatus({frame});
}

}  // namespace

void TakeLivenessOfWorkers(const uint8_t* data, size_t size) {
  using namespace std::chrono_literals;
  Script script;
  controller::LivenessMonitor monitor(
      std::make_unique<ScriptedServerChannel>(
          script, 0, [](const control::PeerName&, const control::Message&) {}),
      2, {Epoch(7), 1min, 10min, 10min}, [](const controller::WorkerLoss&) {}, PassOn);
  for (Rank rank = 0; rank < 2; ++rank) {
    monitor.Watch(rank, "elsewhere", 1);
    monitor.ExpectHeartbeats(rank);
  }
  for (Record& record : ReadRecords(data, size, control::Protocol::kLiveness)) {
    script.Add({0, "peer " + std::to_string(record.sender % 4), std::move(record.message)});
  }
  script.WaitUntilDone();
  monitor.Abort(SessionId(1), Generation(0), 1, {});
  monitor.Stop();
}

}  // namespace lockstep::fuzz
