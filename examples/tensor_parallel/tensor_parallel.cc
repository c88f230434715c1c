// Computes a transformer block split over all workers, and checks it against the unsplit block.
#include <chrono>
#include <cstdio>
#include <vector>

#include "examples/support/cluster.h"
#include "examples/support/flags.h"
#include "examples/tensor_parallel/block.h"

namespace lockstep::examples::tensor_parallel {
namespace {

constexpr float kTolerance = 1e-4f;

struct Flags {
  ClusterFlags cluster;
  BlockShape shape;
  uint64_t seed = 1;
  int repeat = 10;
};

// The same values in [-1, 1] for any number of workers.
StatusOr<DRef> PlaceInput(Session& session, const BlockShape& shape) {
  std::vector<float> x(static_cast<size_t>(shape.tokens() * shape.width));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i * 2654435761u % 2001) / 1000 - 1;
  LOCKSTEP_ASSIGN_OR_RETURN(
      DRef on_worker0,
      session.CopyToWorker0(Shape{shape.tokens(), shape.width}, ViewOf(x.data(), x.size())));
  return session.BroadcastFromWorker0(on_worker0);
}

// Runs the block once, and then `repeat` times for the clock. Milliseconds of one run.
StatusOr<double> TimeForward(Session& session, const Block& block, const DRef& x,
                             const BlockWeights& weights, Placement placement, int repeat,
                             DRef& result) {
  LOCKSTEP_ASSIGN_OR_RETURN(result, block.Forward(x, weights, placement));
  LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeat; ++i) {
    LOCKSTEP_RETURN_IF_ERROR(block.Forward(x, weights, placement).status());
  }
  LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  return time.count() / repeat;
}

// The block as a plan, beside the same call by call, whose result was `split`: the same in every
// bit.
Status ComparePlan(Session& session, const Block& block, const DRef& x, const BlockWeights& parts,
                   int repeat, double split_ms, const DRef& split) {
  StatusOr<BoundPlan> plan = block.Plan(x, parts);
  if (plan.status().code() == StatusCode::kUnimplemented) {
    std::printf("not as a plan: %s\n", Message(plan.status()).c_str());
    return OkStatus();
  }
  LOCKSTEP_RETURN_IF_ERROR(plan.status());
  LOCKSTEP_RETURN_IF_ERROR(plan->Execute());
  LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeat; ++i) LOCKSTEP_RETURN_IF_ERROR(plan->Execute());
  LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef y, plan->Output("y"));
  LOCKSTEP_ASSIGN_OR_RETURN(const HostTensor planned, session.CopyFromWorker0(y));
  LOCKSTEP_ASSIGN_OR_RETURN(const HostTensor called, session.CopyFromWorker0(split));
  if (!(planned == called)) return Internal("the plan's result differs from that of its calls");
  const double plan_ms = time.count() / repeat;
  std::printf("as a plan: the same in every bit, %.2f ms (%.2fx)\n", plan_ms, split_ms / plan_ms);
  return OkStatus();
}

Status Run(const Flags& flags) {
  const BlockShape& shape = flags.shape;
  LOCKSTEP_ASSIGN_OR_RETURN(
      Cluster cluster,
      Cluster::Open(flags.cluster, "examples/tensor_parallel/transformer_module.so"));
  Session& session = cluster.session();
  LOCKSTEP_ASSIGN_OR_RETURN(const Block block, Block::Load(session, cluster.module_path(), shape));

  // The same weights twice: dealt out over the workers, and whole on every one.
  LOCKSTEP_ASSIGN_OR_RETURN(const BlockWeights parts,
                            PlaceWeights(session, shape, Placement::kSplit, flags.seed));
  LOCKSTEP_ASSIGN_OR_RETURN(const BlockWeights whole,
                            PlaceWeights(session, shape, Placement::kReplicated, flags.seed));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef x, PlaceInput(session, shape));

  DRef split;
  DRef unsplit;
  LOCKSTEP_ASSIGN_OR_RETURN(
      const double split_ms,
      TimeForward(session, block, x, parts, Placement::kSplit, flags.repeat, split));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const double unsplit_ms,
      TimeForward(session, block, x, whole, Placement::kReplicated, flags.repeat, unsplit));

  float difference = 0;
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef largest, block.MaxAbsDifference(split, unsplit));
  LOCKSTEP_RETURN_IF_ERROR(session.CopyFromWorker0(ViewOf(&difference, 1), largest));

  std::printf(
      "%lld heads over %d %s: max abs error %.2e (at most %.0e); "
      "%.2f ms split, %.2f ms unsplit\n",
      static_cast<long long>(shape.heads), session.num_workers(),
      session.num_workers() == 1 ? "worker" : "workers", difference, kTolerance, split_ms,
      unsplit_ms);
  // Written so that what is not a number fails.
  if (!(difference <= kTolerance)) {
    return Internal("the split block differs from the unsplit one by ", difference);
  }
  LOCKSTEP_RETURN_IF_ERROR(ComparePlan(session, block, x, parts, flags.repeat, split_ms, split));
  return cluster.Close();
}

}  // namespace
}  // namespace lockstep::examples::tensor_parallel

int main(int argc, char** argv) {
  lockstep::examples::tensor_parallel::Flags flags;
  const int exit_code = lockstep::examples::ParseFlags(
      "Computes a transformer block split over all workers, and checks the result.",
      lockstep::examples::WithClusterFlags(
          flags.cluster,
          {
              {"--batch", &flags.shape.batch, "Sequences", 1024},
              {"--sequence", &flags.shape.sequence, "Tokens of a sequence", 65536},
              {"--seed", &flags.seed, "Of the weights"},
              {"--repeat", &flags.repeat, "Runs that are timed", 1'000'000},
          }),
      argc, argv);
  if (exit_code >= 0) return exit_code;

  const lockstep::Status status = lockstep::examples::tensor_parallel::Run(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "tensor_parallel: %s\n", lockstep::Message(status).c_str());
  return 1;
}
