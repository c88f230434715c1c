#include "services/worker/execute/step_runner.h"

#include <cstdint>
#include <cstring>

#include "runtime/tensor/element.h"

namespace lockstep::worker {
namespace {

std::byte* At(StepMemory memory, int buffer, int64_t element, size_t element_bytes) {
  return memory[static_cast<size_t>(buffer)] + static_cast<size_t>(element) * element_bytes;
}

}  // namespace

Buffer BufferOf(const plan::Span& span, StepMemory memory, DType dtype) {
  if (span.count == 0) return {nullptr, 0, dtype};
  return {At(memory, span.buffer, span.offset, SizeOf(dtype)), static_cast<size_t>(span.count),
          dtype};
}

Status RunCopy(const plan::CopyStep& step, StepMemory memory, size_t element_bytes,
               tensor::Processor& by) {
  const auto bytes = [&](int64_t elements) {
    return static_cast<size_t>(elements) * element_bytes;
  };
  Status status;
  plan::ForEachBlock(step, [&](const plan::RowBlock& block) {
    status.Update(
        by.CopyRows(At(memory, step.to_buffer, block.to, element_bytes), bytes(block.to_pitch),
                    At(memory, step.from_buffer, block.from, element_bytes),
                    bytes(block.from_pitch), bytes(block.row), static_cast<size_t>(block.rows)));
  });
  return status;
}

Status RunFill(const plan::FillStep& step, StepMemory memory, DType dtype, tensor::Processor& by) {
  uint64_t pattern = 0;
  if (step.op == Reduction::kProd) {
    tensor::VisitDType(dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      const T one = tensor::ConvertElement<T>(uint8_t{1});
      std::memcpy(&pattern, &one, sizeof one);
    });
  }
  return by.Fill(BufferOf(step.to, memory, dtype), pattern);
}

Status RunCollective(const plan::CollectiveStep& step, StepMemory memory, DType dtype,
                     collective::Communicator& by, Deadline deadline) {
  const Buffer send = BufferOf(step.send, memory, dtype);
  const Buffer recv = BufferOf(step.recv, memory, dtype);
  switch (step.kind) {
    case OperationKind::kAllReduce:
      return by.AllReduce(send, recv, step.op, deadline);
    case OperationKind::kAllGather:
      return by.AllGather(send, recv, step.counts, deadline);
    case OperationKind::kReduceScatter:
      return by.ReduceScatter(send, recv, step.counts, step.op, deadline);
    case OperationKind::kAllToAll:
      return by.AllToAll(send, step.counts, recv, step.recv_counts, deadline);
    default:
      return Internal("a plan has no ", FactsOf(step.kind).name);
  }
}

}  // namespace lockstep::worker
