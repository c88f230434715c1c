// The step of a program file beside the session's call for it.
#include "tools/cli/program/runner.h"

namespace lockstep::cli::program {

StatusOr<DRef> IssueCollective(Session& session, const CollectiveStep& step, const DRef& source,
                               const DRef& destination) {
  const CollectiveOptions options{step.in_group, step.team, destination};
  switch (step.kind) {
    case OperationKind::kAllReduce:
      return session.AllReduce(source, step.op, options);
    case OperationKind::kReduce:
      return session.Reduce(source, step.op, step.root, options);
    case OperationKind::kBroadcast:
      return session.Broadcast(source, step.root, options);
    case OperationKind::kScatter:
      return session.Scatter(source, step.root, options);
    case OperationKind::kGather:
      return session.Gather(source, step.root, options);
    case OperationKind::kAllGather:
      return session.AllGather(source, options);
    case OperationKind::kReduceScatter:
      return session.ReduceScatter(source, step.op, options);
    case OperationKind::kAllToAll:
      return session.AllToAll(source, options);
    case OperationKind::kTransfer:
      return session.Transfer(source, step.from, step.to, options);
    case OperationKind::kReceiveFromPreviousGroup:
      return session.ReceiveFromPreviousGroup(options);
    case OperationKind::kBarrier: {
      LOCKSTEP_RETURN_IF_ERROR(session.Barrier(options));
      return DRef();
    }
    case OperationKind::kSendToNextGroup: {
      LOCKSTEP_RETURN_IF_ERROR(session.SendToNextGroup(source));
      return DRef();
    }
  }
  return Internal("unknown collective ", static_cast<int>(step.kind));
}

}  // namespace lockstep::cli::program
