// A client program outside of Lockstep's repository: connects, adds the workers' ranks up, prints
// the sum.
#include <cstdio>
#include <vector>

#include "runtime/client/session.h"

using namespace lockstep;

Status Run(const char* endpoint) {
  SessionOptions options;
  options.endpoint = endpoint;
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, Session::Connect(options));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef worker_rank, session.GetFunction("lockstep.worker_rank"));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef full, session.GetFunction("lockstep.full"));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef rank, session.Call(worker_rank));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef mine, session.Call(full, Shape{1}, rank, DType::kFloat32));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef sum, session.AllReduce(mine, Reduction::kSum));
  LOCKSTEP_ASSIGN_OR_RETURN(HostTensor result, session.CopyFromWorker0(sum));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<float> elements, result.Elements<float>());
  std::printf("%d workers, their ranks' sum is %g\n", session.num_workers(), elements[0]);
  return session.Close();
}

int main(int argc, char** argv) {
  const Status status = Run(argc > 1 ? argv[1] : "ipc:///run/lockstep/client.sock");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
