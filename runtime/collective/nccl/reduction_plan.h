// How NCCL does a reduction: by which of its types and operators, perhaps of wider elements.
#pragma once

#include <memory>

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/collective/nccl/library.h"
#include "runtime/collective/operation.h"
#include "runtime/tensor/storage.h"

namespace lockstep::collective::nccl {

struct ReductionPlan {
  // Among so many ranks; with the memory that it takes, of `allocator`.
  static StatusOr<ReductionPlan> For(ReduceOp op, int ranks, ConstBuffer send, Buffer recv,
                                     tensor::Allocator& allocator);

  ncclDataType_t type;
  ncclRedOp_t op;
  DType wide;        // that of the elements that NCCL reduces
  bool makes_bools;  // what is not 0 becomes 1
  // Wider copies of what is reduced, and of the result; null: it is as wide as it is reduced.
  std::shared_ptr<tensor::Storage> wide_send;
  std::shared_ptr<tensor::Storage> wide_recv;
};

}  // namespace lockstep::collective::nccl
