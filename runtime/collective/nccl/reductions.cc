// Operations that combine data.
#include <utility>

#include "runtime/collective/checks.h"
#include "runtime/collective/nccl/nccl_communicator.h"

namespace lockstep::collective::nccl {
namespace {

constexpr int kFirstWithFloat8 = 22400;
constexpr int kFirstGpuWithFloat8 = 9;

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

ncclRedOp_t OpOf(ReduceOp op, DType dtype) {
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
      return ncclAvg;
  }
  return ncclSum;
}

const std::byte* At(const void* memory, int64_t elements, DType dtype) {
  return static_cast<const std::byte*>(memory) + static_cast<size_t>(elements) * SizeOf(dtype);
}

}  // namespace

Status NcclCommunicator::CheckReducible(ReduceOp op, DType dtype) const {
  const bool is_float8 = dtype == DType::kFloat8E4M3 || dtype == DType::kFloat8E5M2;
  if (is_float8 && device_->library.version >= kFirstWithFloat8 &&
      device_->streams->gpu().facts().major >= kFirstGpuWithFloat8) {
    return CheckReduction(op, DType::kFloat32);
  }
  return CheckReduction(op, dtype);
}

NcclCommunicator::Plan NcclCommunicator::PlanOf(ReduceOp op, DType dtype) {
  const DType wide = WideFor(op, dtype);
  return {TypeOf(wide), OpOf(op, dtype), wide, dtype == DType::kBool, nullptr, nullptr};
}

StatusOr<NcclCommunicator::Plan> NcclCommunicator::PlanFor(ReduceOp op, ConstBuffer send,
                                                           Buffer recv) {
  Plan plan = PlanOf(op, send.dtype);
  if (SizeOf(plan.wide) == SizeOf(send.dtype)) return plan;
  LOCKSTEP_ASSIGN_OR_RETURN(plan.wide_send,
                            device_->allocator->Allocate(send.count * SizeOf(plan.wide)));
  LOCKSTEP_ASSIGN_OR_RETURN(plan.wide_recv,
                            device_->allocator->Allocate(recv.count * SizeOf(plan.wide)));
  return plan;
}

Status NcclCommunicator::PostReduction(const char* what, const Plan& plan, ConstBuffer send,
                                       Buffer recv, Deadline deadline, const Reduction& calls) {
  const bool widens = plan.wide_send != nullptr;
  const ConstBuffer from =
      widens ? ConstBuffer{plan.wide_send->data(), send.count, plan.wide} : send;
  const Buffer to = widens ? Buffer{plan.wide_recv->data(), recv.count, plan.wide} : recv;
  cuda::Stream& stream = device_->streams->communication();
  // In the communication stream from the first to the last step: nobody uses the wide copies beside
  // it.
  const auto on_lane = [&](const Status& status) { return status.ok() ? status : Fail(status); };
  if (widens) {
    LOCKSTEP_RETURN_IF_ERROR(on_lane(device_->streams->BeginCommunication()));
    LOCKSTEP_RETURN_IF_ERROR(on_lane(device_->elements.Cast(
        stream, send, Buffer{plan.wide_send->data(), send.count, plan.wide})));
  }
  const cuda::Range memory[] = {RangeOf(send), RangeOf(recv), RangeOf(from), RangeOf(to)};
  LOCKSTEP_RETURN_IF_ERROR(
      Post(what, memory, deadline, [&](const Library& nccl, ncclComm_t comm, NativeStream native) {
        return calls(nccl, comm, native, from.data, to.data);
      }));
  if (recv.count == 0 || (!widens && !plan.makes_bools)) return OkStatus();
  const ConstBuffer result =
      widens ? ConstBuffer(to) : ConstBuffer{recv.data, recv.count, DType::kUInt8};
  LOCKSTEP_RETURN_IF_ERROR(on_lane(device_->elements.Cast(stream, result, recv)));
  return on_lane(device_->streams->EndCommunication(memory));
}

Status NcclCommunicator::DoAllReduce(ConstBuffer send, Buffer recv, ReduceOp op,
                                     Deadline deadline) {
  // Before the ranks agree: who has no memory for it keeps the others from beginning.
  LOCKSTEP_ASSIGN_OR_RETURN(const Plan plan, PlanFor(op, send, recv));
  LOCKSTEP_RETURN_IF_ERROR(
      Agree({.kind = Kind::kAllReduce, .dtype = send.dtype, .op = op}, send.count, {}, deadline));
  if (send.count == 0) return OkStatus();
  return PostReduction(
      "ncclAllReduce", plan, send, recv, deadline,
      [&](const Library& nccl, ncclComm_t comm, NativeStream stream, const void* from, void* to) {
        return nccl.ncclAllReduce(from, to, send.count, plan.type, plan.op, comm, stream);
      });
}

Status NcclCommunicator::DoReduce(ConstBuffer send, Buffer recv, ReduceOp op, Rank root,
                                  Deadline deadline) {
  // Before the ranks agree: who has no memory for it keeps the others from beginning.
  LOCKSTEP_ASSIGN_OR_RETURN(const Plan plan, PlanFor(op, send, recv));
  LOCKSTEP_RETURN_IF_ERROR(Agree(
      {.kind = Kind::kReduce, .dtype = send.dtype, .op = op, .root = static_cast<uint16_t>(root)},
      send.count, {}, deadline));
  if (send.count == 0) return OkStatus();
  return PostReduction(
      "ncclReduce", plan, send, recv, deadline,
      [&](const Library& nccl, ncclComm_t comm, NativeStream stream, const void* from, void* to) {
        return nccl.ncclReduce(from, to, send.count, plan.type, plan.op, root, comm, stream);
      });
}

Status NcclCommunicator::DoReduceScatter(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                                         Deadline deadline) {
  const auto mine = static_cast<size_t>(counts[static_cast<size_t>(rank())]);
  // Before the ranks agree: who has no memory for it keeps the others from beginning.
  LOCKSTEP_ASSIGN_OR_RETURN(const Plan plan, PlanFor(op, send, recv));
  LOCKSTEP_RETURN_IF_ERROR(Agree({.kind = Kind::kReduceScatter, .dtype = send.dtype, .op = op},
                                 send.count, counts, deadline));
  if (send.count == 0) return OkStatus();
  return PostReduction(
      "ncclReduceScatter", plan, send, recv, deadline,
      [&](const Library& nccl, ncclComm_t comm, NativeStream stream, const void* from, void* to) {
        if (AreEven(counts)) {
          return nccl.ncclReduceScatter(from, to, mine, plan.type, plan.op, comm, stream);
        }
        // A reduction to each rank, of its part, all at once.
        ncclResult_t result = nccl.ncclGroupStart();
        int64_t offset = 0;
        const auto is_fine = [&] { return result == ncclSuccess || result == ncclInProgress; };
        for (int root = 0; root < size() && is_fine(); ++root) {
          const int64_t count = counts[static_cast<size_t>(root)];
          if (count > 0) {
            result = nccl.ncclReduce(At(from, offset, plan.wide), to, static_cast<size_t>(count),
                                     plan.type, plan.op, root, comm, stream);
          }
          offset += count;
        }
        const ncclResult_t ended = nccl.ncclGroupEnd();
        return is_fine() ? ended : result;
      });
}

}  // namespace lockstep::collective::nccl
