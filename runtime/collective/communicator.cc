#include "runtime/collective/communicator.h"

#include "runtime/collective/checks.h"

namespace lockstep::collective {
namespace {

// Without the buffers that only the root has a part in, on the others.
Operation OnlyOwnBuffers(Operation operation, Rank rank) {
  if (rank == operation.root) return operation;
  switch (operation.kind) {
    case Kind::kReduce:
    case Kind::kGather:
      operation.recv = {nullptr, 0, operation.send.dtype};
      break;
    case Kind::kBroadcast:
    case Kind::kScatter:
      operation.send = {nullptr, 0, operation.recv.dtype};
      break;
    default:
      break;
  }
  return operation;
}

}  // namespace

Status Communicator::Run(const Operation& operation, Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(Usable());
  LOCKSTEP_RETURN_IF_ERROR(CheckGroup(operation, rank(), size()));
  if (Reduces(operation.kind)) {
    LOCKSTEP_RETURN_IF_ERROR(CheckReducible(operation.op, operation.send.dtype));
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckBuffers(operation, rank()));
  return DoRun(OnlyOwnBuffers(operation, rank()), deadline);
}

Status Communicator::CheckReducible(ReduceOp op, DType dtype) const {
  return CheckReduction(op, dtype);
}

}  // namespace lockstep::collective
