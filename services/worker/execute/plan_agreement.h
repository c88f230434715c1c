// How the ranks of a bound plan agree by their CPUs that they execute it on their GPUs: once for
// each execution, before its first collective.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/device_communicator.h"
#include "runtime/module/function.h"
#include "runtime/plan/plan_key.h"
#include "services/worker/execute/prepared_program.h"

namespace lockstep::worker {

// What a rank knows of one collective of a plan: it is agreed on in full the first time.
struct AgreedCollective {
  collective::Agreed what;
  // A function that may fail, or wait, on its own is called since the ranks have agreed last: they
  // do so again, so that no GPU waits for a rank that does not come.
  bool asks_again = false;
};

// Those of this rank's steps, in their order. `may_be_captured`: of the program's functions, the
// same on all ranks.
std::vector<AgreedCollective> AgreedCollectivesOf(const PreparedProgram& prepared,
                                                  const std::vector<bool>& may_be_captured);

// Threads: the executing thread. Errors: those of the communicator, which name who does not come;
// kInvalidArgument: the ranks are about to execute different things.
class PlanAgreement {
 public:
  // What a rank tells the others when it begins an execution. Plain: it is sent as it is.
  struct Ready {
    uint64_t command = 0;
    uint64_t plan = 0;           // a hash of its program; filled in here
    uint32_t graphs = 0;         // a bit for each captured graph that fits its buffers of now
    uint32_t buffers = 0;        // the same, of buffers that it has seen before
    uint8_t has_moved = 0;       // its buffers lie elsewhere in registered memory than before
    uint8_t asks_each_time = 0;  // it cannot know before where they lie
    uint8_t may_capture = 0;
    uint8_t unused[5] = {};
  };
  // What all of them have in common.
  struct Verdict {
    bool is_known = false;  // what was agreed on in earlier executions holds
    uint32_t graphs = 0;
    uint32_t buffers = 0;
    bool may_capture = false;
  };

  // `cpus` connects the plan's ranks. Borrowed: a reset ends it before the plan is gone.
  PlanAgreement(collective::Communicator& cpus, const plan::PlanKey& key)
      : cpus_(cpus), plan_(key.high ^ key.low) {}

  // Of the program's functions, those that all ranks take for such as may be captured: where they
  // differ, because their modules do, none of them.
  StatusOr<std::vector<bool>> AgreeOnFunctions(std::vector<bool> may_be_captured,
                                               Deadline deadline);
  // All ranks have come to this execution.
  StatusOr<Verdict> Begin(Ready mine, Deadline deadline);
  // True if `is_done` is on all ranks.
  StatusOr<bool> AllAreDone(bool is_done, Deadline deadline);

 private:
  collective::Communicator& cpus_;
  const uint64_t plan_;
};

}  // namespace lockstep::worker
