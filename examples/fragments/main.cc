// Programs whose workers compile what they compute, and run it on their part of real data.
//
//     fragments [PROGRAM] [--workers 4] [--processes] [--connect ENDPOINT]
#include <cstdio>
#include <string>

#include "examples/fragments/programs.h"
#include "examples/support/cluster.h"
#include "examples/support/flags.h"

namespace lockstep::examples::fragments {
namespace {

struct Program {
  const char* name;
  Status (*show)(Session&);
};

constexpr Program kPrograms[] = {
    {"row_sums", ShowRowSums},
    {"product", ShowProduct},
    {"least_squares", ShowLeastSquares},
    {"logistic_regression", ShowLogisticRegression},
    {"k_means", ShowKMeans},
    {"page_rank", ShowPageRank},
    {"components", ShowComponents},
};

Status Run(const ClusterFlags& flags, const std::string& wanted) {
  LOCKSTEP_ASSIGN_OR_RETURN(Cluster cluster, Cluster::Open(flags, ""));
  bool found = false;
  for (const Program& program : kPrograms) {
    if (!wanted.empty() && wanted != program.name) continue;
    found = true;
    const int workers = cluster.session().num_workers();
    std::printf("--- %s on %d worker%s\n", program.name, workers, workers == 1 ? "" : "s");
    LOCKSTEP_RETURN_IF_ERROR(program.show(cluster.session()));
  }
  if (!found) return NotFound("there is no program ", wanted, "; --help names them");
  return cluster.Close();
}

}  // namespace
}  // namespace lockstep::examples::fragments

int main(int argc, char** argv) {
  lockstep::examples::ClusterFlags flags;
  std::string program;
  const int exit_code = lockstep::examples::ParseFlags(
      "Programs that workers compile for their processors, on real data.",
      lockstep::examples::WithClusterFlags(
          flags, {{"program", &program,
                   "row_sums, product, least_squares, logistic_regression, k_means, page_rank or "
                   "components; all without it"}}),
      argc, argv);
  if (exit_code >= 0) return exit_code;
  const lockstep::Status status = lockstep::examples::fragments::Run(flags, program);
  if (status.ok()) return 0;
  std::fprintf(stderr, "fragments: %s\n", lockstep::Message(status).c_str());
  return 1;
}
