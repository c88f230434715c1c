// The collectives of a Session: checks of what can be seen here, and the command.
#include <vector>

#include "runtime/client/session_parts.h"
#include "runtime/control/operation_kind.h"

namespace lockstep {

StatusOr<DRef> Session::Collective(const CollectiveCall& call, const CollectiveOptions& options) {
  client::SessionCore& core = *parts_->core;
  if (call.takes_source) LOCKSTEP_RETURN_IF_ERROR(core.CheckOwn(call.source, "the source"));
  if (!options.destination.IsNull()) {
    LOCKSTEP_RETURN_IF_ERROR(core.CheckOwn(options.destination, "the destination"));
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckPlace(call, options));

  const bool makes = call.gives_result && options.destination.IsNull();
  const auto write = [&](wire::Command::Builder command, RegisterId destination) {
    auto collective = command.initCollective();
    collective.setKind(control::ToWire(call.kind));
    collective.setOp(static_cast<wire::ReduceOp>(call.op));
    collective.setSource(call.source.id().Packed());
    collective.setDestination(destination.Packed());
    collective.setMakeDestination(makes);
    collective.setInGroup(options.in_group);
    collective.setRoot(call.root);
    collective.setPeer(call.peer);
    if (!options.team.empty()) {
      auto team = collective.initTeam(static_cast<unsigned>(options.team.size()));
      for (unsigned i = 0; i < team.size(); ++i) team.set(i, options.team[i]);
    }
  };
  if (makes) return core.IssueNaming(write);
  LOCKSTEP_RETURN_IF_ERROR(core.Issue(
      [&](wire::Command::Builder command) { write(command, options.destination.id()); }));
  return options.destination;
}

Status Session::CheckPlace(const CollectiveCall& call, const CollectiveOptions& options) const {
  if (options.in_group && !options.team.empty()) {
    return InvalidArgument("a collective is either in_group or in a team, not both");
  }
  std::vector<bool> seen(static_cast<size_t>(parts_->core->facts().num_workers));
  for (Rank rank : options.team) {
    LOCKSTEP_RETURN_IF_ERROR(Annotate(parts_->CheckRank(rank), "the team"));
    if (seen[static_cast<size_t>(rank)]) {
      return InvalidArgument("the team names rank ", rank, " twice");
    }
    seen[static_cast<size_t>(rank)] = true;
  }
  const int size = !options.team.empty() ? static_cast<int>(options.team.size())
                   : options.in_group    ? num_workers() / num_groups()
                                         : num_workers();
  if (call.root < 0 || call.root >= size) {
    return InvalidArgument("the root ", call.root, " is not among the ", size,
                           " ranks of the collective");
  }
  return OkStatus();
}

StatusOr<DRef> Session::AllReduce(const DRef& source, Reduction op,
                                  const CollectiveOptions& options) {
  return Collective({.kind = OperationKind::kAllReduce, .source = source, .op = op}, options);
}
StatusOr<DRef> Session::Reduce(const DRef& source, Reduction op, Rank root,
                               const CollectiveOptions& options) {
  return Collective({.kind = OperationKind::kReduce, .source = source, .op = op, .root = root},
                    options);
}
StatusOr<DRef> Session::Broadcast(const DRef& source, Rank root, const CollectiveOptions& options) {
  return Collective({.kind = OperationKind::kBroadcast, .source = source, .root = root}, options);
}
StatusOr<DRef> Session::BroadcastFromWorker0(const DRef& source, const CollectiveOptions& options) {
  return Broadcast(source, 0, options);
}
StatusOr<DRef> Session::Scatter(const DRef& source, Rank root, const CollectiveOptions& options) {
  return Collective({.kind = OperationKind::kScatter, .source = source, .root = root}, options);
}
StatusOr<DRef> Session::ScatterFromWorker0(const DRef& source, const CollectiveOptions& options) {
  return Scatter(source, 0, options);
}
StatusOr<DRef> Session::Gather(const DRef& source, Rank root, const CollectiveOptions& options) {
  return Collective({.kind = OperationKind::kGather, .source = source, .root = root}, options);
}
StatusOr<DRef> Session::GatherToWorker0(const DRef& source, const CollectiveOptions& options) {
  return Gather(source, 0, options);
}
StatusOr<DRef> Session::AllGather(const DRef& source, const CollectiveOptions& options) {
  return Collective({.kind = OperationKind::kAllGather, .source = source}, options);
}
StatusOr<DRef> Session::ReduceScatter(const DRef& source, Reduction op,
                                      const CollectiveOptions& options) {
  return Collective({.kind = OperationKind::kReduceScatter, .source = source, .op = op}, options);
}
StatusOr<DRef> Session::AllToAll(const DRef& source, const CollectiveOptions& options) {
  return Collective({.kind = OperationKind::kAllToAll, .source = source}, options);
}
Status Session::Barrier(const CollectiveOptions& options) {
  return Collective({.kind = OperationKind::kBarrier, .takes_source = false, .gives_result = false},
                    options)
      .status();
}

StatusOr<DRef> Session::Transfer(const DRef& source, Rank from, Rank to,
                                 const CollectiveOptions& options) {
  LOCKSTEP_RETURN_IF_ERROR(Annotate(parts_->CheckRank(from), "the sender"));
  LOCKSTEP_RETURN_IF_ERROR(Annotate(parts_->CheckRank(to), "the receiver"));
  if (from == to) return InvalidArgument("rank ", from, " cannot send to itself");
  return Collective({.kind = OperationKind::kTransfer, .source = source, .root = from, .peer = to},
                    {.destination = options.destination});
}
Status Session::SendToNextGroup(const DRef& source) {
  return Collective(
             {.kind = OperationKind::kSendToNextGroup, .source = source, .gives_result = false}, {})
      .status();
}
StatusOr<DRef> Session::ReceiveFromPreviousGroup(const CollectiveOptions& options) {
  return Collective({.kind = OperationKind::kReceiveFromPreviousGroup, .takes_source = false},
                    {.destination = options.destination});
}
StatusOr<DRef> Session::SendFromWorker0(const DRef& source, Rank to,
                                        const CollectiveOptions& options) {
  return Transfer(source, 0, to, options);
}

}  // namespace lockstep
