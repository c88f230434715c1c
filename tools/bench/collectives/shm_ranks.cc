// Lockstep's shared-memory ranks as processes of their own.
//
//     collective_shm RANKS KIND ELEMENT SECONDS SIZE...      see operation.h and timing.h
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/collective/shm/shm.h"
#include "runtime/tensor/arena.h"
#include "tools/bench/collectives/communicator_ranks.h"
#include "tools/bench/collectives/timing.h"
#include "tools/bench/rival_process.h"

namespace lockstep::bench {
namespace {

void RunRank(int rank, const std::vector<std::string>& arena_names, const Operation& operation,
             double seconds, const std::vector<size_t>& sizes_bytes) {
  auto arena = tensor::Arena::Create({.name = arena_names[static_cast<size_t>(rank)]});
  RequireOk(arena.status());
  collective::shm::Options options;
  options.rank = rank;
  options.arena = *arena;
  options.arena_names = arena_names;
  auto communicator = collective::shm::Connect(options, Soon());
  RequireOk(communicator.status());
  CommunicatorRanks ranks(std::move(*communicator), *arena);
  Timing(ranks, operation, seconds).Run(sizes_bytes);
  ranks.Barrier();
}

int Main(int rank_count, const Operation& operation, double seconds,
         const std::vector<size_t>& sizes_bytes) {
  LimitLife(kRankLifeSeconds);
  const std::vector<std::string> arena_names = ArenaNames(rank_count);
  return RunRanks(rank_count,
                  [&](int rank) { RunRank(rank, arena_names, operation, seconds, sizes_bytes); });
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep::bench;
  return MainOfRanks("collective_shm", /*least_ranks=*/1, argc, argv, Main);
}
