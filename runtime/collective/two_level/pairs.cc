// Messages between two ranks go inside of their node, or over the network.
#include <thread>

#include "runtime/collective/checks.h"
#include "runtime/collective/two_level/two_level_communicator.h"

namespace lockstep::collective::two_level {

Status TwoLevelCommunicator::Send(ConstBuffer send, Rank to, Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(failure_);
  LOCKSTEP_RETURN_IF_ERROR(CheckPeer(to, rank(), size()));
  LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("send", send, send.count, send.dtype));
  return Inside(layout_.IsNear(to) ? node_->Send(send, layout_.LocalOf(to), deadline)
                                   : network_->Send(send, to, deadline));
}

Status TwoLevelCommunicator::Recv(Buffer recv, Rank from, Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(failure_);
  LOCKSTEP_RETURN_IF_ERROR(CheckPeer(from, rank(), size()));
  LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("recv", recv, recv.count, recv.dtype));
  return Inside(layout_.IsNear(from) ? node_->Recv(recv, layout_.LocalOf(from), deadline)
                                     : network_->Recv(recv, from, deadline));
}

Status TwoLevelCommunicator::SendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from,
                                      Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(failure_);
  LOCKSTEP_RETURN_IF_ERROR(CheckPeer(to, rank(), size()));
  LOCKSTEP_RETURN_IF_ERROR(CheckPeer(from, rank(), size()));
  LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("send", send, send.count, send.dtype));
  LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("recv", recv, recv.count, recv.dtype));
  LOCKSTEP_RETURN_IF_ERROR(CheckOverlap(send, recv, nullptr));
  if (layout_.IsNear(to) && layout_.IsNear(from)) {
    return Inside(
        node_->SendRecv(send, layout_.LocalOf(to), recv, layout_.LocalOf(from), deadline));
  }
  if (!layout_.IsNear(to) && !layout_.IsNear(from)) {
    return Inside(network_->SendRecv(send, to, recv, from, deadline));
  }
  // One goes inside and one across: at the same time, or a ring of ranks would wait in a circle.
  Status sent;
  std::thread sender([&] {
    sent = layout_.IsNear(to) ? node_->Send(send, layout_.LocalOf(to), deadline)
                              : network_->Send(send, to, deadline);
  });
  const Status received = layout_.IsNear(from) ? node_->Recv(recv, layout_.LocalOf(from), deadline)
                                               : network_->Recv(recv, from, deadline);
  sender.join();
  LOCKSTEP_RETURN_IF_ERROR(Inside(sent));
  return Inside(received);
}

}  // namespace lockstep::collective::two_level
