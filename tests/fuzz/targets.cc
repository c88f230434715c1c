#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {

const std::vector<Target>& Targets() {
  static const std::vector<Target> targets = {
      {"arguments", ReadArgument},
      {"assignments", ReadAssignments},
      {"batch", ExecuteBatches},
      {"bulk_replies", TakeBulkReplies},
      {"bulk_requests", TakeBulkRequests},
      {"client_messages", TakeClientMessages},
      {"configuration", ReadConfiguration},
      {"controller_liveness", TakeLivenessOfWorkers},
      {"controller_messages", TakeControllerMessages},
      {"envelope", TakeEnvelopes},
      {"fragment_calls", ReadFragmentCall},
      {"fragments", ReadFragments},
      {"http", ReadHttp},
      {"kernels", ReadKernels},
      {"npy", ReadNpyFile},
      {"plans", LowerPlans},
      {"program", ReadProgram},
      {"rings", TakeAnswersByRing},
      {"tree", TakeTreeMessages},
      {"values", ReadValues},
      {"worker_liveness", TakeLivenessOfController},
      {"worker_messages", TakeWorkerMessages},
  };
  return targets;
}

}  // namespace lockstep::fuzz
