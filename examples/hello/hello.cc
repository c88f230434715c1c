// Lockstep in thirty lines: four workers, a tensor on each, and their sum on all of them.
#include <cstdio>
#include <vector>

#include "runtime/client/session.h"
#include "services/local/local_cluster.h"

using namespace lockstep;

Status Run() {
  local::LocalClusterOptions options;
  options.workers = 4;
  LOCKSTEP_ASSIGN_OR_RETURN(auto cluster, local::LocalCluster::Start(options));
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster->Connect());

  // Functions run on every worker at once. A DRef names a register that exists on all of them.
  LOCKSTEP_ASSIGN_OR_RETURN(DRef worker_rank, session.GetFunction("lockstep.worker_rank"));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef full, session.GetFunction("lockstep.full"));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef rank, session.Call(worker_rank));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef mine, session.Call(full, Shape{2, 3}, rank, DType::kFloat32));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef sum, session.AllReduce(mine, Reduction::kSum));

  // Until here nothing has waited; this does.
  LOCKSTEP_ASSIGN_OR_RETURN(HostTensor result, session.CopyFromWorker0(sum));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<float> elements, result.Elements<float>());
  std::printf("0 + 1 + 2 + 3 =");
  for (float element : elements) std::printf(" %g", element);
  std::printf("\n");
  return session.Close();
}

int main() {
  const Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", Message(status).c_str());
  return status.ok() ? 0 : 1;
}
