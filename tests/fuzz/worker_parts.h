// What a worker is made of, without its thread and its controller: the only rank of a world.
#pragma once

#include <memory>
#include <vector>

#include "runtime/collective/communicator.h"
#include "runtime/control/activity_page.h"
#include "runtime/module/function.h"
#include "runtime/tensor/arena.h"
#include "services/worker/bulk/bulk_server.h"
#include "services/worker/execute/executor.h"
#include "services/worker/join/membership.h"
#include "services/worker/options.h"
#include "services/worker/report/recorder.h"
#include "tests/fuzz/scripted_channel.h"

namespace lockstep::fuzz {

// One for the whole process: shared memory takes longer to make than an input to read.
//
// Threads: one at a time.
class WorkerParts {
 public:
  static constexpr SessionId kSession{5};

  WorkerParts();

  worker::Executor& executor() { return *executor_; }
  tensor::Arena& arena() { return *arena_; }

  // As the worker does with a welcome: the executor goes on with this membership. Its ranks are
  // connected if it is the only one.
  void Enter(worker::Membership membership);
  // That of the only rank, in which the session kSession is open.
  worker::Membership AloneWithSession() const;
  // No session is left.
  void Clear();

  // Every built-in function that does not wait, in registers 1, 2, ... of generation 1, and then
  // tensors of several shapes.
  void MakeRegisters();

 private:
  worker::Membership Alone() const;

  worker::WorkerOptions options_;
  Script script_;
  std::shared_ptr<tensor::Arena> arena_;
  std::unique_ptr<worker::BulkServer> bulk_;
  module::FunctionTable functions_;
  control::ActivityPage activity_;
  ScriptedClientChannel controller_;
  worker::Membership membership_;
  std::unique_ptr<collective::Communicator> world_;
  worker::Recorder recorder_;
  std::unique_ptr<worker::Executor> executor_;
};

// The one of this process, which is made when it is first asked for.
WorkerParts& SharedWorker();

}  // namespace lockstep::fuzz
