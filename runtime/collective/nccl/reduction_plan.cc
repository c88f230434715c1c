#include "runtime/collective/nccl/reduction_plan.h"

namespace lockstep::collective::nccl {
namespace {

// What NCCL reduces the elements as. It has no integers of 16 bits, and its averages of the narrow
// ones would wrap on the way: those are widened first.
DType WideFor(ReduceOp op, DType dtype) {
  switch (dtype) {
    case DType::kInt16:
      return DType::kInt32;
    case DType::kUInt16:
      return DType::kUInt32;
    case DType::kInt8:
      return op == ReduceOp::kAvg ? DType::kInt32 : dtype;
    case DType::kUInt8:
      return op == ReduceOp::kAvg ? DType::kUInt32 : dtype;
    case DType::kInt32:
      return op == ReduceOp::kAvg ? DType::kInt64 : dtype;
    case DType::kUInt32:
      return op == ReduceOp::kAvg ? DType::kUInt64 : dtype;
    case DType::kBool:
      return DType::kUInt8;
    default:
      return dtype;
  }
}

ncclDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return ncclInt8;
    case DType::kInt32:
      return ncclInt32;
    case DType::kUInt32:
      return ncclUint32;
    case DType::kInt64:
      return ncclInt64;
    case DType::kUInt64:
      return ncclUint64;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kFloat64:
      return ncclFloat64;
    case DType::kFloat8E4M3:
      return ncclFloat8e4m3;
    case DType::kFloat8E5M2:
      return ncclFloat8e5m2;
    default:
      return ncclUint8;
  }
}

ncclRedOp_t OpOf(ReduceOp op, DType dtype, int ranks) {
  const bool is_bool = dtype == DType::kBool;
  switch (op) {
    case ReduceOp::kSum:
      return is_bool ? ncclMax : ncclSum;
    case ReduceOp::kProd:
      return is_bool ? ncclMin : ncclProd;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kAvg:
      // Of one rank they are the same, but NCCL before 2.29.7 leaves the last elements of an
      // average unwritten (NVIDIA/nccl issue 1950).
      return ranks == 1 ? ncclSum : ncclAvg;
  }
  return ncclSum;
}

}  // namespace

StatusOr<ReductionPlan> ReductionPlan::For(ReduceOp op, int ranks, ConstBuffer send, Buffer recv,
                                           tensor::Allocator& allocator) {
  const DType wide = WideFor(op, send.dtype);
  ReductionPlan plan{.type = TypeOf(wide),
                     .op = OpOf(op, send.dtype, ranks),
                     .wide = wide,
                     .makes_bools = send.dtype == DType::kBool,
                     .wide_send = nullptr,
                     .wide_recv = nullptr};
  if (SizeOf(wide) == SizeOf(send.dtype)) return plan;
  LOCKSTEP_ASSIGN_OR_RETURN(plan.wide_send, allocator.Allocate(send.count * SizeOf(wide)));
  LOCKSTEP_ASSIGN_OR_RETURN(plan.wide_recv, allocator.Allocate(recv.count * SizeOf(wide)));
  return plan;
}

}  // namespace lockstep::collective::nccl
