#include "runtime/collective/two_level/two_level_communicator.h"

#include <algorithm>
#include <mutex>
#include <system_error>
#include <thread>

#include "runtime/collective/checks.h"

namespace lockstep::collective::two_level {

std::unique_ptr<Communicator> Combine(std::vector<std::vector<Rank>> nodes,
                                      std::unique_ptr<Communicator> node,
                                      std::unique_ptr<message::MessageCommunicator> network,
                                      size_t one_rail_bytes) {
  if (nodes.size() == 1 && node != nullptr) return node;
  const bool all_alone =
      std::all_of(nodes.begin(), nodes.end(), [](const auto& one) { return one.size() == 1; });
  if (all_alone) return network;
  Layout layout(std::move(nodes), network->rank(), one_rail_bytes);
  return std::make_unique<TwoLevelCommunicator>(std::move(layout), std::move(node),
                                                std::move(network));
}

TwoLevelCommunicator::TwoLevelCommunicator(Layout layout, std::unique_ptr<Communicator> node,
                                           std::unique_ptr<message::MessageCommunicator> network)
    : name_("shm+" + std::string(network->backend())),
      runner_(std::move(layout), std::move(node), std::move(network)),
      reductions_(runner_),
      movements_(runner_) {}

Status TwoLevelCommunicator::DoSend(ConstBuffer send, Rank to, Deadline deadline) {
  return runner_.Inside(runner_.layout().IsNear(to)
                            ? runner_.node()->Send(send, runner_.layout().LocalOf(to), deadline)
                            : runner_.network().Send(send, to, deadline));
}

Status TwoLevelCommunicator::DoRecv(Buffer recv, Rank from, Deadline deadline) {
  return runner_.Inside(runner_.layout().IsNear(from)
                            ? runner_.node()->Recv(recv, runner_.layout().LocalOf(from), deadline)
                            : runner_.network().Recv(recv, from, deadline));
}

Status TwoLevelCommunicator::DoSendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from,
                                        Deadline deadline) {
  if (runner_.layout().IsNear(to) && runner_.layout().IsNear(from)) {
    return runner_.Inside(runner_.node()->SendRecv(send, runner_.layout().LocalOf(to), recv,
                                                   runner_.layout().LocalOf(from), deadline));
  }
  if (!runner_.layout().IsNear(to) && !runner_.layout().IsNear(from)) {
    return runner_.Inside(runner_.network().SendRecv(send, to, recv, from, deadline));
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
  Communicator& by_to = runner_.layout().IsNear(to) ? *runner_.node() : runner_.network();
  Communicator& by_from = runner_.layout().IsNear(from) ? *runner_.node() : runner_.network();
  std::thread sender;
  try {
    sender = std::thread([&] {
      const Rank there = runner_.layout().IsNear(to) ? runner_.layout().LocalOf(to) : to;
      note(by_to.Send(send, there, deadline), by_from);
    });
  } catch (const std::system_error& error) {
    return runner_.Fail(ResourceExhausted(
        "rank ", members()[static_cast<size_t>(rank())],
        " cannot start the thread that it needs to send to its node and receive from another, or "
        "the other way round: ",
        error.what(), "; raise the limits on its processes and memory"));
  }
  const Rank there = runner_.layout().IsNear(from) ? runner_.layout().LocalOf(from) : from;
  note(by_from.Recv(recv, there, deadline), by_to);
  sender.join();
  return runner_.Inside(first);
}

StatusOr<std::unique_ptr<Communicator>> TwoLevelCommunicator::DoSplit(
    absl::Span<const Rank> group_ranks, uint64_t tag, Deadline deadline,
    const std::atomic<bool>* cancelled) {
  LOCKSTEP_RETURN_IF_ERROR(CheckSplit(group_ranks, rank(), size()));
  std::vector<std::vector<Rank>> nodes(
      runner_.layout().nodes().size());  // of ranks of the new group
  std::vector<Rank> near;                // of ranks of the node
  for (size_t i = 0; i < group_ranks.size(); ++i) {
    nodes[static_cast<size_t>(runner_.layout().NodeOf(group_ranks[i]))].push_back(
        static_cast<Rank>(i));
    if (runner_.layout().IsNear(group_ranks[i]))
      near.push_back(runner_.layout().LocalOf(group_ranks[i]));
  }
  nodes.erase(std::remove_if(nodes.begin(), nodes.end(), [](auto& node) { return node.empty(); }),
              nodes.end());
  std::unique_ptr<Communicator> node;
  if (runner_.node() != nullptr && (near.size() > 1 || nodes.size() == 1)) {
    LOCKSTEP_ASSIGN_OR_RETURN(node, runner_.node()->Split(near, tag, deadline, cancelled));
    if (nodes.size() == 1) return node;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(auto network,
                            runner_.network().SplitOff(group_ranks, tag, deadline, cancelled));
  return Combine(std::move(nodes), std::move(node), std::move(network),
                 runner_.layout().one_rail_bytes());
}

}  // namespace lockstep::collective::two_level
