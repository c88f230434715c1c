// Messages from one rank to another.
#include "runtime/collective/checks.h"
#include "runtime/collective/nccl/nccl_communicator.h"

namespace lockstep::collective::nccl {

Status NcclCommunicator::Send(ConstBuffer send, Rank to, Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(Usable());
  LOCKSTEP_RETURN_IF_ERROR(CheckPeer(to, rank(), size()));
  LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("send", send, send.count, send.dtype));
  LOCKSTEP_RETURN_IF_ERROR(AgreeOnMessages(send, to, {}, -1, deadline));
  if (send.count == 0) return OkStatus();
  return Post("ncclSend", {{RangeOf(send)}}, deadline,
              [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
                return nccl.ncclSend(send.data, RangeOf(send).size_bytes, ncclUint8, to, comm,
                                     stream);
              });
}

Status NcclCommunicator::Recv(Buffer recv, Rank from, Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(Usable());
  LOCKSTEP_RETURN_IF_ERROR(CheckPeer(from, rank(), size()));
  LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("recv", recv, recv.count, recv.dtype));
  LOCKSTEP_RETURN_IF_ERROR(AgreeOnMessages({}, -1, recv, from, deadline));
  if (recv.count == 0) return OkStatus();
  return Post("ncclRecv", {{RangeOf(recv)}}, deadline,
              [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
                return nccl.ncclRecv(recv.data, RangeOf(recv).size_bytes, ncclUint8, from, comm,
                                     stream);
              });
}

Status NcclCommunicator::SendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from,
                                  Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(Usable());
  LOCKSTEP_RETURN_IF_ERROR(CheckPeer(to, rank(), size()));
  LOCKSTEP_RETURN_IF_ERROR(CheckPeer(from, rank(), size()));
  LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("send", send, send.count, send.dtype));
  LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("recv", recv, recv.count, recv.dtype));
  LOCKSTEP_RETURN_IF_ERROR(CheckOverlap(send, recv, nullptr));
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
