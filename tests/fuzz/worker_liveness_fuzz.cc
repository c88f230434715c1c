// What a worker takes on its liveness socket: records. It is rank 0, was welcomed by the controller
// of epoch 7, and has the session WorkerParts::kSession, which aborts may be about.
#include <pthread.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "services/worker/report/liveness_client.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/scripted_channel.h"
#include "tests/fuzz/targets.h"
#include "tests/fuzz/worker_parts.h"

namespace lockstep::fuzz {

void TakeLivenessOfController(const uint8_t* data, size_t size) {
  using namespace std::chrono_literals;
  static WorkerParts parts;
  static const control::ActivityPage activity;
  parts.Enter(parts.AloneWithSession());
  Script script;
  for (Record& record : ReadRecords(data, size, control::Protocol::kLiveness)) {
    script.Add({0, "", std::move(record.message)});
  }
  trace::Ring executing;
  trace::Ring bulk;
  worker::Tracer tracer(executing, bulk, 0ns);
  worker::LivenessClient::Options options;
  options.tracer = &tracer;
  options.controller = Epoch(7);
  options.heartbeat_interval = 1min;
  options.controller_timeout = 10min;
  {
    worker::LivenessClient client(
        std::make_unique<ScriptedClientChannel>(script, [](const control::Message&) {}), options,
        activity, pthread_self(),
        {[](SessionId session, const worker::AbortOrder& abort) {
           parts.executor().sessions().Abort(session, abort);
         },
         [](Epoch) {}, [](const Status&) {}, [](const Status&) {}});
    script.WaitUntilDone();
  }
  parts.Clear();
}

}  // namespace lockstep::fuzz
