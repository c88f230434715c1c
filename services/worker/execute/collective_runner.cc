#include "services/worker/execute/collective_runner.h"

#include "absl/cleanup/cleanup.h"
#include "runtime/base/deadline.h"

namespace lockstep::worker {
namespace {

bool IsForWantOfARank(const Status& status) {
  return status.code() == StatusCode::kDeadlineExceeded ||
         status.code() == StatusCode::kUnavailable;
}

}  // namespace

void CollectiveRunner::SetMembership(const Membership& membership) {
  membership_ = &membership;
  world_ = WorldLinks();
}

Status CollectiveRunner::Run(SessionState& session, const char* name, bool is_message,
                             absl::FunctionRef<Status(const CollectiveContext&)> execute) {
  // Sessions are failed until the ranks are connected again, so this is no command of theirs.
  if (world_.cpus == nullptr) return Internal("a collective before the ranks are connected");
  const CollectiveContext context{membership_->rank,
                                  membership_->world_size(),
                                  world_,
                                  parts_.places,
                                  session,
                                  parts_.activity,
                                  Deadline::After(membership_->collective_timeout),
                                  membership_->collective_timeout,
                                  parts_.running.number,
                                  parts_.recorder == nullptr ? nullptr : &parts_.recorder->spans()};
  // An abort has come since it was looked whether the session skips this command.
  if (!session.BeginCollective(parts_.running.number))
    return Aborted("the session's work is given up");
  // Looked at after it has begun: if the world is broken later, that ends it.
  if (world_broken_) {
    session.EndCollective();
    parts_.running.function = name;
    return Unavailable("a worker of the cluster is lost");
  }
  parts_.activity.Name(name, WorkerActivity::Kind::kCollective);
  if (parts_.recorder != nullptr) parts_.recorder->spans().Name(name, trace::Kind::kCollective);
  Status status;
  {
    // Also if a message that cannot be read ends it.
    const absl::Cleanup end = [&session] { session.EndCollective(); };
    status = execute(context);
  }
  if (status.ok()) [[likely]]
    return status;
  // That rank may have failed itself, at an earlier command: it is about to tell its cause, which
  // is the one to report. Of a message it is a cause itself: the ranks that wait in later
  // collectives wait for its ranks.
  if (IsForWantOfARank(status) && !is_message) {
    session.AwaitFailure(parts_.running.number, parts_.cause_grace);
  }
  parts_.running.function = name;
  return status;
}

}  // namespace lockstep::worker
