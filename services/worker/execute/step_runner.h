// Runs single steps of plans: copies, fills and collectives, on one rank's buffers.
#pragma once

#include <cstddef>

#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/plan/steps/step.h"
#include "runtime/tensor/processor.h"

namespace lockstep::worker {

// Where the buffers that a step names begin, by their number. Borrowed.
using StepMemory = absl::Span<std::byte* const>;

// The elements that a step names.
Buffer BufferOf(const plan::Span& span, StepMemory memory, DType dtype);

// By the processor of the memory that the buffers lie in, whose errors they return; on a GPU the
// work is done in its order. `element_bytes`: of both buffers.
Status RunCopy(const plan::CopyStep& step, StepMemory memory, size_t element_bytes,
               tensor::Processor& by);
Status RunFill(const plan::FillStep& step, StepMemory memory, DType dtype, tensor::Processor& by);
// `by` connects the step's team, for memory like this. The errors of the communicator.
Status RunCollective(const plan::CollectiveStep& step, StepMemory memory, DType dtype,
                     collective::Communicator& by, Deadline deadline);

}  // namespace lockstep::worker
