// Messages between two ranks go inside of their node, or over the network.
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "runtime/collective/two_level/two_level_communicator.h"

namespace lockstep::collective::two_level {

Status TwoLevelCommunicator::DoSend(ConstBuffer send, Rank to, Deadline deadline) {
  return Inside(layout_.IsNear(to) ? node_->Send(send, layout_.LocalOf(to), deadline)
                                   : network_->Send(send, to, deadline));
}

Status TwoLevelCommunicator::DoRecv(Buffer recv, Rank from, Deadline deadline) {
  return Inside(layout_.IsNear(from) ? node_->Recv(recv, layout_.LocalOf(from), deadline)
                                     : network_->Recv(recv, from, deadline));
}

Status TwoLevelCommunicator::DoSendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from,
                                        Deadline deadline) {
  if (layout_.IsNear(to) && layout_.IsNear(from)) {
    return Inside(
        node_->SendRecv(send, layout_.LocalOf(to), recv, layout_.LocalOf(from), deadline));
  }
  if (!layout_.IsNear(to) && !layout_.IsNear(from)) {
    return Inside(network_->SendRecv(send, to, recv, from, deadline));
  }
  // One goes inside and one across: at the same time, or a ring of ranks would wait in a circle.
  std::mutex mutex;
  Status first;
  // The half that fails first says why, and ends the other, which must not wait for its deadline.
  const auto note = [&](const Status& status, Communicator& other) {
    if (status.ok()) return;
    {
      std::lock_guard lock(mutex);
      if (!first.ok()) return;
      first = status;
    }
    other.Abort(status);
  };
  Communicator& by_to = layout_.IsNear(to) ? *node_ : *network_;
  Communicator& by_from = layout_.IsNear(from) ? *node_ : *network_;
  std::thread sender;
  try {
    sender = std::thread([&] {
      const Rank there = layout_.IsNear(to) ? layout_.LocalOf(to) : to;
      note(by_to.Send(send, there, deadline), by_from);
    });
  } catch (const std::system_error& error) {
    return Fail(ResourceExhausted(
        "rank ", members()[static_cast<size_t>(rank())],
        " cannot start the thread that it needs to send to its node and receive from another, or "
        "the other way round: ",
        error.what(), "; raise the limits on its processes and memory"));
  }
  const Rank there = layout_.IsNear(from) ? layout_.LocalOf(from) : from;
  note(by_from.Recv(recv, there, deadline), by_to);
  sender.join();
  return Inside(first);
}

}  // namespace lockstep::collective::two_level
