// Messages from one rank to another.
#include "runtime/collective/nccl/nccl_communicator.h"

namespace lockstep::collective::nccl {

Status NcclCommunicator::DoSend(ConstBuffer send, Rank to, Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(AgreeOnMessages(send, to, {}, -1, deadline));
  if (send.count == 0) return OkStatus();
  return Post("ncclSend", {{RangeOf(send)}}, deadline,
              [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
                return nccl.ncclSend(send.data, RangeOf(send).size_bytes, ncclUint8, to, comm,
                                     stream);
              });
}

Status NcclCommunicator::DoRecv(Buffer recv, Rank from, Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(AgreeOnMessages({}, -1, recv, from, deadline));
  if (recv.count == 0) return OkStatus();
  return Post("ncclRecv", {{RangeOf(recv)}}, deadline,
              [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
                return nccl.ncclRecv(recv.data, RangeOf(recv).size_bytes, ncclUint8, from, comm,
                                     stream);
              });
}

Status NcclCommunicator::DoSendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from,
                                    Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(AgreeOnMessages(send, to, recv, from, deadline));
  if (send.count == 0 && recv.count == 0) return OkStatus();
  const auto ranks = static_cast<size_t>(size());
  Parts parts{std::vector<cuda::Range>(ranks), std::vector<cuda::Range>(ranks)};
  parts.send[static_cast<size_t>(to)] = RangeOf(send);
  parts.recv[static_cast<size_t>(from)] = RangeOf(recv);
  return Post("ncclSend and ncclRecv", {{RangeOf(send), RangeOf(recv)}}, deadline,
              [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
                return Exchange(nccl, comm, stream, parts);
              });
}

}  // namespace lockstep::collective::nccl
