#include "services/worker/execute/step_runner.h"

#include <algorithm>
#include <cstring>

#include "runtime/tensor/element.h"

namespace lockstep::worker {
namespace {

std::byte* At(StepMemory memory, int buffer, int64_t element, size_t element_bytes) {
  return memory[static_cast<size_t>(buffer)] + static_cast<size_t>(element) * element_bytes;
}

Buffer BufferOf(const plan::Span& span, StepMemory memory, DType dtype) {
  if (span.count == 0) return {nullptr, 0, dtype};
  return {At(memory, span.buffer, span.offset, SizeOf(dtype)), static_cast<size_t>(span.count),
          dtype};
}

}  // namespace

void RunCopy(const plan::CopyStep& step, StepMemory memory, size_t element_bytes) {
  plan::ForEachRun(step, [&](int64_t from, int64_t to, int64_t count) {
    std::memcpy(At(memory, step.to_buffer, to, element_bytes),
                At(memory, step.from_buffer, from, element_bytes),
                static_cast<size_t>(count) * element_bytes);
  });
}

void RunFill(const plan::FillStep& step, StepMemory memory, DType dtype) {
  if (step.to.count == 0) return;
  std::byte* const begin = At(memory, step.to.buffer, step.to.offset, SizeOf(dtype));
  const auto count = static_cast<size_t>(step.to.count);
  if (step.op != Reduction::kProd) {
    std::memset(begin, 0, count * SizeOf(dtype));
    return;
  }
  tensor::VisitDType(dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    std::fill_n(reinterpret_cast<T*>(begin), count, tensor::ConvertElement<T>(uint8_t{1}));
  });
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
