// An epoch of training as a program that is lowered once.
#pragma once

#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/client/session.h"

namespace lockstep::examples::digits {

// What an epoch works with: registers on all workers.
struct EpochRegisters {
  DRef images, labels, batch_of_row;  // dealt out by rows
  DRef parameters, velocity, totals;  // the same everywhere; changed by each step
  DRef gradient, step;                // functions of digits_module.cc
};

struct EpochSize {
  int64_t samples = 0;
  int64_t batches = 0;
  double learning_rate = 0;
  double momentum = 0;
};

// Each execution takes one step for each batch, as Train() does call by call: the same in every
// bit. What is in the registers then counts: of the batches, the parameters, and so on. The errors
// of Session::Bind(), and of a program with too many steps for one plan.
StatusOr<BoundPlan> PlanEpoch(Session& session, const EpochRegisters& registers,
                              const EpochSize& size);

}  // namespace lockstep::examples::digits
