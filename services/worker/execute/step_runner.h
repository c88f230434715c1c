// Runs single steps of plans: copies, fills and collectives, on one rank's buffers in host memory.
#pragma once

#include <cstddef>

#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/plan/step.h"

namespace lockstep::worker {

// Where the buffers that a step names begin, by their number. Borrowed.
using StepMemory = absl::Span<std::byte* const>;

// `element_bytes`: of both buffers.
void RunCopy(const plan::CopyStep& step, StepMemory memory, size_t element_bytes);
void RunFill(const plan::FillStep& step, StepMemory memory, DType dtype);
// `by` connects the step's team. The errors of the communicator.
Status RunCollective(const plan::CollectiveStep& step, StepMemory memory, DType dtype,
                     collective::Communicator& by, Deadline deadline);

}  // namespace lockstep::worker
