// Lockstep's shared-memory ranks as processes of their own, for the allreduce benchmark.
//
//     allreduce_shm RANKS SECONDS SIZE...      see allreduce_timing.h
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/buffer.h"
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/shm/shm.h"
#include "runtime/tensor/arena.h"
#include "tools/bench/allreduce_timing.h"
#include "tools/bench/rival_process.h"

namespace lockstep::bench {
namespace {

void RequireOk(const Status& status) { Require(status.ok(), Message(status).c_str()); }

Deadline Soon() { return Deadline::After(std::chrono::seconds(20)); }

class ShmRanks final : public Ranks {
 public:
  ShmRanks(std::unique_ptr<collective::Communicator> communicator,
           std::shared_ptr<tensor::Arena> arena)
      : communicator_(std::move(communicator)), arena_(std::move(arena)) {}

  int rank() const override { return communicator_->rank(); }
  int size() const override { return communicator_->size(); }

  float* Allocate(size_t count) override {
    auto storage = arena_->Allocate(count * sizeof(float));
    RequireOk(storage.status());
    storages_.push_back(*storage);
    auto* data = static_cast<float*>((*storage)->data());
    std::fill_n(data, count, 0.0F);
    return data;
  }
  // One deadline for the barrier and what is timed after it: reading the clock is no part of
  // either.
  void Barrier() override {
    deadline_ = Soon();
    RequireOk(communicator_->Barrier(deadline_));
  }
  void AllReduce(float* data, size_t count) override {
    const Buffer buffer = ViewOf(data, count);
    RequireOk(communicator_->AllReduce(buffer, buffer, collective::ReduceOp::kSum, deadline_));
  }
  double Max(double value) override {
    const Buffer buffer = ViewOf(&value, 1);
    RequireOk(communicator_->AllReduce(buffer, buffer, collective::ReduceOp::kMax, Soon()));
    return value;
  }

 private:
  std::unique_ptr<collective::Communicator> communicator_;
  std::shared_ptr<tensor::Arena> arena_;
  Deadline deadline_ = Soon();
  std::vector<std::shared_ptr<tensor::Storage>> storages_;
};

int RunRank(int rank, const std::vector<std::string>& arena_names, double seconds,
            const std::vector<size_t>& sizes_bytes) {
  LimitLife(kRankLifeSeconds);
  auto arena = tensor::Arena::Create({.name = arena_names[static_cast<size_t>(rank)]});
  RequireOk(arena.status());
  collective::shm::Options options;
  options.rank = rank;
  options.arena = *arena;
  options.arena_names = arena_names;
  auto communicator = collective::shm::Connect(options, Soon());
  RequireOk(communicator.status());
  ShmRanks ranks(std::move(*communicator), *arena);
  AllReduceTiming(ranks, seconds).Run(sizes_bytes);
  ranks.Barrier();
  return 0;
}

int Main(int rank_count, double seconds, const std::vector<size_t>& sizes_bytes) {
  LimitLife(kRankLifeSeconds);
  std::vector<std::string> arena_names;
  for (int rank = 0; rank < rank_count; ++rank) {
    arena_names.push_back("lockstep-bench-" + std::to_string(getpid()) + "-" +
                          std::to_string(rank));
  }
  for (int rank = 0; rank < rank_count; ++rank) {
    const pid_t pid = fork();
    Require(pid >= 0, "fork");
    if (pid == 0) std::exit(RunRank(rank, arena_names, seconds, sizes_bytes));
  }
  bool all_well = true;
  for (int rank = 0; rank < rank_count; ++rank) {
    int status = 0;
    Require(wait(&status) > 0, "wait");
    all_well = all_well && status == 0;
  }
  return all_well ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 0;
  double seconds = 0;
  std::vector<size_t> sizes_bytes;
  if (ranks < 1 || ranks > 64 ||
      !lockstep::bench::ParseTimingArguments(argc - 1, argv + 1, &seconds, &sizes_bytes)) {
    std::fprintf(stderr, "usage: allreduce_shm RANKS SECONDS SIZE...\n");
    return 2;
  }
  return lockstep::bench::Main(ranks, seconds, sizes_bytes);
}
