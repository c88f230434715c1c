#include "tests/chaos/client.h"

namespace lockstep::chaos {

StatusOr<std::unique_ptr<Client>> Client::Start(ClientOptions options) {
  SessionOptions session;
  session.name = options.name;
  session.connect_timeout = std::chrono::seconds(30);
  // Longer than any call may take: a wait that nothing ends shows.
  session.timeout = 6 * options.longest_call;
  session.Reach(options.controller);
  if (options.wire != nullptr) session.endpoint = options.wire->endpoint();
  LOCKSTEP_ASSIGN_OR_RETURN(Session connected, Session::Connect(session));
  return std::unique_ptr<Client>(new Client(std::move(options), std::move(connected)));
}

Status Client::TakeSteps(int steps) {
  for (int i = 0; i < steps; ++i) LOCKSTEP_RETURN_IF_ERROR(Timed([&] { return program.Step(); }));
  return OkStatus();
}

Status Client::RunToTheEnd(int steps) {
  LOCKSTEP_RETURN_IF_ERROR(TakeSteps(steps));
  LOCKSTEP_RETURN_IF_ERROR(SyncAll());
  return program.CheckAll();
}

Status Client::WorkOnce() {
  if (options.copies) LOCKSTEP_RETURN_IF_ERROR(Timed([&] { return program.CopyMuch(); }));
  LOCKSTEP_RETURN_IF_ERROR(TakeSteps(1));
  return SyncAll();
}

Status Client::WorkUntilItFails(uint64_t* mark) {
  const Deadline deadline = Deadline::After(options.longest_call);
  return WorkWhile([&] { return !deadline.Expired(); }, mark);
}

Status Client::AwaitRepair() {
  if (!options.repaired.valid()) return OkStatus();
  if (options.repaired.wait_for(6 * options.longest_call) == std::future_status::ready) {
    return OkStatus();
  }
  return Violation("what the fault broke was not repaired in time");
}

Status Client::AwaitWorkers() {
  LOCKSTEP_RETURN_IF_ERROR(AwaitRepair());
  return Timed([&] { return session.AwaitWorkers(options.longest_call); });
}

Status Client::Recover(uint64_t mark, int steps) {
  program.ForgetSince(mark);
  LOCKSTEP_RETURN_IF_ERROR(Timed([&] { return session.Reset(); }));
  LOCKSTEP_RETURN_IF_ERROR(program.CheckAll());
  return RunToTheEnd(steps);
}

}  // namespace lockstep::chaos
