// One controller of two workers, for one input: what its peers say is a script.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/control/channel.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/scripted_channel.h"

namespace lockstep::fuzz {

// Workers that are welcomed say ready, and answer every batch that asks for it. What only this
// controller knows stands in inputs as
//   EPOCH---                                 the epoch of the last welcome
//   INCARNAT                                 that in which the controller was started
//   TOKEN--0 TOKEN--1 TOKEN--2 TOKEN--3      the token of the session that was opened last
//
// Threads: one at a time; the controller's own are inside.
class ControllerRun {
 public:
  ControllerRun();

  void FromClient(int number, control::Message message);
  void FromWorker(int number, control::Message message);
  // Both workers ask to join, as they do when all is well.
  void JoinWorkers();
  // A client asks for a session, and gets it once the workers are ready.
  void OpenSession(int client);

  // Starts the controller, has it read all that was said, and stops it.
  void Run();

 private:
  enum Channel { kClients, kWorkers };

  void HearWorkerBeingTold(const control::PeerName& to, const control::Message& message);
  void HearClientBeingTold(const control::Message& message);

  Placeholders known_;
  Script script_;
  Script liveness_script_;
};

}  // namespace lockstep::fuzz
